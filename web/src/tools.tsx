// A tool call as a card: its name, its arguments, its state and its result.

import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import type { Json } from "./api";
import { PartView, Why } from "./chat";
import { t } from "./i18n";
import { Exact } from "./exact";
import { Icon } from "./icons";
import type { ToolPart } from "./transcript";
import { visible } from "./visible";

const MOST_OF_LINE = 160;

/** A text in one line, cut visibly; only spaces, tabs and line ends become a space. */
function inLine(text: string): string {
  const line = visible(text).replace(/(?: |\t|\r?\n)+/g, " ");
  return line.length > MOST_OF_LINE ? `${line.slice(0, MOST_OF_LINE)}…` : line;
}

/** One line of the arguments: the first values. */
function summary(args: Json | null, written: string): string {
  if (!args) return written;
  return Object.values(args)
    .map((value) => (typeof value === "string" ? value : JSON.stringify(value)))
    .join("  ");
}

/** Arguments: a text of several lines as it is, anything else as JSON; unseen characters are escapes. */
function Arguments({ args }: { args: Json }) {
  const entries = Object.entries(args);
  if (!entries.length) return <pre class="exact">{"{}"}</pre>;
  return (
    <dl class="arguments">
      {entries.map(([name, value]) => [
        <dt key={`${name}:`}>{visible(name)}</dt>,
        <dd key={name}>
          <pre class="exact"><Exact text={typeof value === "string" ? value : JSON.stringify(value, null, 2)} /></pre>
        </dd>,
      ])}
    </dl>
  );
}

const MOST = 4000;

function Result({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > MOST;
  return (
    <>
      <pre class="exact result" tabIndex={0}>{visible(isLong && !isWhole ? `${text.slice(0, MOST)}…` : text)}</pre>
      {isLong && !isWhole && <button class="link" onClick={() => setWhole(true)}>{t("show all")}</button>}
    </>
  );
}

const WORDS = { writing: "writing the call", running: "running", waiting: "needs your decision", done: "done", error: "error" } as const;

export const ToolCard = memo(
  function ToolCard({ part, session }: { part: ToolPart; session: string | null }) {
    const [isOpen, setOpen] = useState(false);
    return (
      <div class={`tool ${part.state}`}>
        <button class="head" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <Icon name={isOpen ? "down" : "right"} />
          <span class="name">{visible(part.name)}</span>
          <span class="gist"><Exact text={inLine(part.progress || summary(part.args, part.written))} /></span>
          <span class={`badge ${part.state}`}>{t(WORDS[part.state])}</span>
        </button>
        {part.sub && (
          <div class="sub">
            <p class="meta">{t("Sub-agent")} {part.sub.agent}</p>
            {part.sub.live.parts.map((each) => <PartView key={each.key} part={each} session={null} />)}
          </div>
        )}
        {isOpen && (
          <div class="body">
            <p class="label">{t("Arguments")}</p>
            {part.args ? <Arguments args={part.args} /> : <pre class="exact"><Exact text={part.written} /></pre>}
            {part.result !== null && (
              <>
                <p class="label">{t("Result")}{part.seq && session && <Why session={session} seq={part.seq} />}</p>
                <Result text={part.result} />
              </>
            )}
          </div>
        )}
      </div>
    );
  },
  // A live part is changed in place, so it is drawn again while it can change.
  (before, after) => before.part === after.part && after.session !== null,
);
