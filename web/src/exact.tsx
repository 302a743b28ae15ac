// A text of ours with code in it, and one in the order of its characters, which a browser would change around letters that are written from the right.

import { visible } from "./visible";

// The blocks of the scripts that are written from the right to the left (Unicode Standard Annex 9, default classes R and AL).
const LETTER = "[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufeff\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]";
// A joiner within a word belongs to it.
const FROM_RIGHT = new RegExp(`(${LETTER}(?:[\\u200c\\u200d]*${LETTER})*)`, "u");

/** `text` with escapes for what cannot be seen; only within a word of such a script does the text run from the right. */
export function Exact({ text }: { text: string }) {
  return <>{visible(text).split(FROM_RIGHT).map((each, at) => (at % 2 ? <bdi dir="rtl">{each}</bdi> : each))}</>;
}

const FROM_RIGHT_IN_JSON = new RegExp(LETTER, "gu");

/** JSON text with escapes for letters that are written from the right: the same value, for a place where `Exact` cannot be. */
export const inOrder = (json: string): string =>
  json.replace(FROM_RIGHT_IN_JSON, (letter) => [...Array(letter.length).keys()].map((at) => `\\u${letter.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""));

/** `text` as the line of a choice or field that draws it as it is, else as JSON: blanks that a browser joins stay apart. */
export function plainly(text: string): string {
  const isPlain = !/^\s|\s$|\s\s|[^\S ]/.test(text) && !FROM_RIGHT.test(text) && visible(text) === text;
  return isPlain ? text : inOrder(JSON.stringify(text)).replace(/ (?= )/g, "\\u0020");
}

/** A text of the page in which backticks mark code. */
export function Coded({ text }: { text: string }) {
  return <>{text.split("`").map((each, at) => (at % 2 ? <code>{each}</code> : each))}</>;
}
