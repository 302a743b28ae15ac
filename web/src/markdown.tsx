// Markdown as it streams. A finished block is parsed once; only the last one is parsed again as it grows.

import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens, type TokensList } from "marked";
import { memo } from "preact/compat";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { t } from "./i18n";
import { visible } from "./visible";

const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

// An entity in an address stays one, as the browser reads it there.
const address = (text: string): string => text.replace(/&(?!#?\w+;)/g, "&amp;").replace(/[<>"']/g, escaped);

/** The class of a link whose text is its address: it was written twice, and is drawn once. */
const TWICE = "twice";

/** A link with all that was written of it: its text may name another place. */
function link(inner: string, href: string, title?: string | null): string {
  const about = title ? ` "${address(title)}"` : "";
  if (!about && inner === address(href)) return `<a class="${TWICE}" href="${inner}">${inner}</a>`;
  return `<a href="${address(href)}">${inner}</a> (${address(href)}${about})`;
}

const marked = new Marked({
  gfm: true,
  // Nothing is drawn of the definition of a link, so it is text, and so is a link to it.
  tokenizer: { def: () => undefined },
  renderer: {
    // Nothing is loaded from elsewhere: a picture of another server is a link.
    image({ href, text, title }: Tokens.Image): string {
      return link(escaped(text), href, title);
    },
    link({ raw, href, title, tokens }: Tokens.Link): string {
      const inner = this.parser.parseInline(tokens);
      return raw.startsWith("[") ? link(inner, href, title) : `<a href="${address(href)}">${inner}</a>`;
    },
    code({ text, lang }: Tokens.Code): string {
      const lines = escaped(text).split(/(?<=\n)/).map((line) => `<span>${line}</span>`);
      return `${lang ? `<p class="info">${escaped(lang)}</p>` : ""}<pre><code>${lines.join("")}</code></pre>`;
    },
    html({ text }: Tokens.HTML | Tokens.Tag): string {
      return escaped(text);
    },
  },
});

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
  if (node.tagName === "INPUT") node.setAttribute("aria-label", node.hasAttribute("checked") ? "☑" : "☐");
});

// A character may also be written as an entity, `&#x202e;`.
DOMPurify.addHook("uponSanitizeElement", (node) => {
  if (node.nodeType === Node.TEXT_NODE) node.textContent = visible(node.textContent!);
});

const ALLOWED = {
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "input", "li", "ol", "p",
    "pre", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["href", "class", "align", "start", "type", "checked", "disabled"],
  RETURN_TRUSTED_TYPE: true,
};

const html = (parsed: string): string => DOMPurify.sanitize(parsed, ALLOWED) as unknown as string;

function contentOf(clean: string): DocumentFragment {
  const box = document.createElement("template");
  box.innerHTML = clean;
  return box.content;
}

// Signs of Markdown's own, and what is laid out anew.
const SIGNS = /[\s\\`*_{}[\]()#+\-.!|~<>&;:="']/gu;
const BAR = /(?<!\\)(?:\\\\)*\|/;

/** The numbers that a list is drawn with. */
const numbers = (start: number, items: ArrayLike<unknown>): string[] => Array.from(items, (_, at) => `${start + at}`);

/** Marks that are drawn as a style, and a backslash that is not drawn. */
const UNDRAWN = new Set(["em", "strong", "del", "escape"]);
const WORD_BEFORE = /[0-9A-Za-z][!-/:-@[-`{-~]*$/;
// The end of a word may follow its marks: **Ann**'s.
const WORD_AFTER = /^(?!'[a-z]{1,2}\b)[!-/:-@[-`{-~]*[0-9A-Za-z]/;

/** Whether signs within a word would not be drawn, so that it is another one: 2**10, ~5~10, C:\_old. */
function joinsWords(tokens: Token[]): boolean {
  return tokens.some(({ type, raw }, at) => {
    if (!UNDRAWN.has(type)) return false;
    const isBehind = WORD_BEFORE.test(tokens.slice(Math.max(0, at - 3), at).map((each) => each.raw).join(""));
    if (type === "escape") return isBehind || raw === "\\\\";
    const isBefore = WORD_AFTER.test(tokens.slice(at + 1, at + 4).map((each) => each.raw).join(""));
    // Scripts without blanks have their marks within a line.
    return (isBehind && /^[*_~]+(?![*_~])[!-~]/.test(raw)) || (isBefore && /[!-~](?<![*_~])[*_~]+$/.test(raw));
  });
}

/** Whether signs within a word are left out, a list is numbered anew, or a row has more cells than the heading, when `token` is drawn. */
function changes(token: Token): boolean {
  if ("tokens" in token && token.tokens && joinsWords(token.tokens)) return true;
  if (token.type === "list" && token.ordered) {
    const { start, items } = token as Tokens.List;
    const written = items.map((each) => /^\s*([0-9]+)/.exec(each.raw)?.[1]);
    return numbers(Number(start), items).some((each, at) => each !== written[at]);
  }
  if (token.type !== "table") return false;
  const { header, rows } = token as Tokens.Table;
  if ([header, ...rows].flat().some((cell) => joinsWords(cell.tokens))) return true;
  return token.raw.split("\n").some((line) =>
    line.trim().replace(/^\|/, "").split(BAR).slice(header.length).some((cell) => cell.trim()));
}

/** Whether a visible character of `raw` is not in its drawing, `clean`, or not in its place. */
function loses(raw: string, tokens: Token[], clean: string): boolean {
  let isChanged = false;
  marked.walkTokens(tokens as TokensList, (token) => void (isChanged ||= changes(token)));
  if (isChanged) return true;
  const drawn = contentOf(clean);
  const twice = [...drawn.querySelectorAll(`a.${TWICE}`)].map((each) => each.textContent);
  // A browser draws the numbers of lists, and boxes.
  const lists = [...drawn.querySelectorAll("ol")].flatMap((each) => numbers(each.start, each.children));
  const boxes = [...drawn.querySelectorAll("input:checked")].map(() => "xX");
  const left = new Map<string, number>();
  for (const char of [drawn.textContent, ...twice, ...lists, ...boxes].join("")) left.set(char, (left.get(char) ?? 0) + 1);
  // Entities are drawn as what they mean. Without an element, no hook would see the text.
  const wanted = contentOf(html(`<p>${raw.replace(/</g, "&lt;")}</p>`)).textContent!;
  for (const char of wanted.replace(SIGNS, "")) {
    const count = left.get(char) ?? 0;
    if (count === 0) return true;
    left.set(char, count - 1);
  }
  return false;
}

/** The block as HTML: Markdown that is drawn without a loss, or else its text. */
function drawing(raw: string, tokens: Token[]): string {
  const clean = html(marked.parser(tokens));
  return loses(raw, tokens, clean) ? html(`<p class="written">${escaped(raw.replace(/\n+$/, ""))}</p>`) : clean;
}

const Block = memo(function Block({ raw, token }: { raw: string; token: Token | null }) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useMemo(() => drawing(raw, token ? [token] : marked.lexer(raw)), [raw]);
  useLayoutEffect(() => {
    for (const pre of place.current!.querySelectorAll("pre")) {
      pre.tabIndex = 0;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = t("Copy");
      button.addEventListener("click", () => {
        void navigator.clipboard.writeText(pre.querySelector("code")?.textContent ?? "");
        button.textContent = t("Copied");
        setTimeout(() => (button.textContent = t("Copy")), 1500);
      });
      pre.prepend(button);
    }
    for (const table of place.current!.querySelectorAll("table")) {
      const box = document.createElement("div");
      box.className = "scroll";
      box.tabIndex = 0;
      table.replaceWith(box);
      box.append(table);
    }
  }, [drawn]);
  return <div ref={place} dangerouslySetInnerHTML={{ __html: drawn }} />;
}, (before, after) => before.raw === after.raw);

/** Splits a growing text into blocks; `rest` is the part whose last block may still grow. */
class Blocks {
  done: { raw: string; token: Token }[] = [];
  private at = 0;
  private text = "";

  of(text: string): { done: { raw: string; token: Token }[]; rest: string } {
    if (!text.startsWith(this.text.slice(0, this.at))) {
      this.done = [];
      this.at = 0;
    }
    this.text = text;
    const tail = text.slice(this.at);
    const tokens = marked.lexer(tail);
    const last = tokens.findLastIndex((each) => each.type !== "space");
    let read = 0;
    for (const token of tokens.slice(0, Math.max(0, last))) {
      read += token.raw.length;
      if (token.type !== "space") this.done = [...this.done, { raw: token.raw, token }];
    }
    this.at += read;
    return { done: this.done, rest: text.slice(this.at) };
  }
}

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const blocks = useRef<Blocks | null>(null);
  blocks.current ??= new Blocks();
  // Before it is parsed: a browser's parser drops some of these characters.
  const { done, rest } = blocks.current.of(visible(text));
  return (
    <div class="markdown">
      {done.map((each, index) => <Block key={index} raw={each.raw} token={each.token} />)}
      {rest.trim() && <Block key={done.length} raw={rest} token={null} />}
    </div>
  );
});
