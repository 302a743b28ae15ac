// A text of ours with code in it, and one in the order of its characters, which a browser would change around letters that are written from the right.

import { visible } from "./visible";

// The blocks of the scripts that are written from the right to the left (Unicode Standard Annex 9, default classes R and AL).
const LETTER = "[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufeff\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]";
// A joiner within a word belongs to it.
const FROM_RIGHT = new RegExp(`(${LETTER}(?:[\\u200c\\u200d]*${LETTER})*)`, "u");

/** `visible`, also for a carriage return that belongs to a line end: with it the text is another one. */
const shown = (text: string): string => visible(text).replace(/\r/g, "\\u{d}");

/** `text` with escapes for what cannot be seen; only within a word of such a script does the text run from the right. */
export function Exact({ text }: { text: string }) {
  return <>{shown(text).split(FROM_RIGHT).map((each, at) => (at % 2 ? <bdi dir="rtl">{each}</bdi> : each))}</>;
}

/** As `Exact`, for a text that can have no elements in it: marks around such a word separate it from the text around it. */
export const inOrder = (text: string): string => shown(text).replace(new RegExp(FROM_RIGHT, "gu"), "\u200e$1\u200e");

/** Whether a browser would change the order of the text. */
export const runsFromRight = (text: string): boolean => FROM_RIGHT.test(text);

/** JSON with such words as escapes, for a place without labels and elements. */
export const withoutRight = (json: string): string =>
  json.replace(new RegExp(FROM_RIGHT, "gu"), (word) => word.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`));

/** A choice of a list. Its text stays as it is; its label is drawn. */
export function Choice({ value, text }: { value: string; text: string }) {
  return <option value={value} label={runsFromRight(text) ? inOrder(text) : undefined}>{text}</option>;
}

/** A text of the page in which backticks mark code. */
export function Coded({ text }: { text: string }) {
  return <>{text.split("`").map((each, at) => (at % 2 ? <code>{each}</code> : each))}</>;
}
