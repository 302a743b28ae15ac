// Text that others wrote, with each character that shows nothing or moves the text around it as an escape.

import { options } from "preact";
import { number } from "./i18n";

// Controls, formats such as bidirectional ones, line ends of other kinds, variation selectors, blanks and fillers.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\p{Variation_Selector}\u034f\u115f\u1160\u17b4\u17b5\u2800\u2d7f\u3164\uffa0\ufffc\u{1107f}\u{13441}\u{13442}\u{16fe4}\u{1d159}]/gu;
// As in the terminal: joiners and a selector belong to emoji and to Persian and Indic words, a carriage return to the line end.
const BELONGS =
  /\r(?=\n)|(?<=(?![\x00-\x7f])[\p{Lo}\p{Mn}\p{Mc}\p{So}\p{Sk}\p{Sm}])[\u200c\u200d](?=(?![\x00-\x7f])[\p{Lo}\p{Mn}\p{Mc}\p{So}\p{Sk}\p{Sm}])|(?<=(?![\x00-\x7f\p{Variation_Selector}])[\p{Lo}\p{Mn}\p{Mc}\p{So}\p{Sk}\p{Sm}])\ufe0f|(?<=[0-9#*])\ufe0f(?=\u20e3)/gu;

// As in the terminal: more than six marks on a character cover the lines around, and marks without one are on the text before.
const HEAPED = /[\p{Mn}\p{Me}](?<=(?:^|(?:[\p{Mn}\p{Me}][\u200c\u200d]*){6})[\p{Mn}\p{Me}])/gu;

const ESCAPED = new RegExp(`${UNSEEN.source}|${HEAPED.source}`, "gu");

/** `text` in a form that shows all of it; tabs and line feeds stay. What is visible already stays as it is. */
export function visible(text: string): string {
  if (text.search(ESCAPED) < 0) return text;
  const places = (rule: RegExp) => new Set([...text.matchAll(rule)].map((each) => each.index));
  const kept = places(BELONGS), heaped = places(HEAPED);
  return text.replace(ESCAPED, (char, at: number) =>
    heaped.has(at) || (char !== "\n" && char !== "\t" && !kept.has(at)) ? `\\u{${char.codePointAt(0)!.toString(16)}}` : char);
}

/** What others wrote, for a field in which a user edits it: without what shows nothing, which a save would keep unseen. */
export const editable = (text: string): string => text.replace(UNSEEN, (char) => (char === "\n" || char === "\t" ? char : ""));

// A backslash before what an escape begins with, here or in the terminal, and before a character that becomes one.
const BEFORE_ESCAPE = new RegExp(`\\\\(?=[\\\\xuU]|(?![\\n\\t])(?:${UNSEEN.source})|${HEAPED.source})`, "gu");

/** `text` in a form that no escape of `visible` looks like: as in the terminal, a backslash that could begin one is doubled. */
export const doubled = (text: string): string => (text.includes("\\") ? text.replace(BEFORE_ESCAPE, "\\\\") : text);

/** The beginning of a text in one line, with its size if it is cut; only spaces, tabs and line ends become a space. */
export function inLine(text: string, most = 200): string {
  const part = text.slice(0, 10 * most);
  const line = visible(part).replace(/(?: |\t|\r?\n)+/g, " ");
  return line.length > most || part.length < text.length ? `${line.slice(0, most)}… (${number(text.length)})` : line;
}

const READ_BY_PEOPLE = ["title", "aria-label", "alt", "placeholder"] as const;

/** From now on each text that Preact draws is `visible`, whoever wrote it. What a user may edit stays as it is. */
export function drawVisibly(): void {
  const before = options.vnode;
  options.vnode = (node) => {
    const drawn = node as { type: unknown; props: any };
    // A piece of text has no type, and itself in the place of properties.
    if (typeof drawn.props === "string") drawn.props = visible(drawn.props);
    else if (typeof drawn.type === "string")
      for (const name of READ_BY_PEOPLE) if (typeof drawn.props[name] === "string") drawn.props[name] = visible(drawn.props[name]);
    before?.(node);
  };
}
