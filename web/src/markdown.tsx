// Markdown as it streams. A finished block is parsed once; only the last one is parsed again as it grows.

import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { memo } from "preact/compat";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { t } from "./i18n";
import { visible } from "./visible";

const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  renderer: {
    // Nothing is loaded from elsewhere: a picture of another server is a link.
    image({ href, text }: Tokens.Image): string {
      return `<a href="${escaped(href)}">${escaped(text || href)}</a>`;
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
    "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["href", "class", "align", "start", "type", "checked", "disabled"],
  RETURN_TRUSTED_TYPE: true,
};

const Block = memo(function Block({ raw, token }: { raw: string; token: Token | null }) {
  const place = useRef<HTMLDivElement>(null);
  const html = useMemo(() => {
    const parsed = token ? marked.parser([token]) : (marked.parse(raw, { async: false }) as string);
    return DOMPurify.sanitize(parsed, ALLOWED) as unknown as string;
  }, [raw]);
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
      pre.append(button);
    }
    for (const table of place.current!.querySelectorAll("table")) {
      const box = document.createElement("div");
      box.className = "scroll";
      box.tabIndex = 0;
      table.replaceWith(box);
      box.append(table);
    }
  }, [html]);
  return <div ref={place} dangerouslySetInnerHTML={{ __html: html }} />;
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
