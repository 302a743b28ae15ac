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

/** A text of the page in which backticks mark code. */
export function Coded({ text }: { text: string }) {
  return <>{text.split("`").map((each, at) => (at % 2 ? <code>{each}</code> : each))}</>;
}
