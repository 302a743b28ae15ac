// Text that others wrote, with each character that shows nothing or moves the text around it as an escape. Pure.

// Controls, formats such as bidirectional ones, line ends of other kinds, variation selectors, blanks and fillers.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\p{Variation_Selector}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;
// Joiners and a selector belong to emoji and to Persian and Indic words, a carriage return to the line end.
const BELONGS = /\r(?=\n)|(?<=[^\x00-\x7f])[\u200c\u200d](?=[^\x00-\x7f])|(?<=[^\x00-\x7f])\ufe0f/gu;

/** `text` in a form that shows all of it; tabs and line feeds stay. */
export function visible(text: string): string {
  const kept = new Set([...text.matchAll(BELONGS)].map((each) => each.index));
  return text.replace(UNSEEN, (char, at: number) => (char === "\n" || char === "\t" || kept.has(at) ? char : `\\u{${char.codePointAt(0)!.toString(16)}}`));
}
