// A tool call as a card: its name, its arguments, its state and its result.

import { memo } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { type Json, messages } from "./api";
import { PartView, Why } from "./chat";
import { t } from "./i18n";
import { Exact } from "./exact";
import { Icon } from "./icons";
import { addressOf } from "./place";
import { subAgentsOf } from "./trace";
import { type KeptFile, type Part, type SubTurn, type ToolPart, turnsOf } from "./transcript";
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

/** What a message brought along. */
export function Files({ files }: { files: KeptFile[] }) {
  if (!files.length) return null;
  return (
    <ul class="files">
      {files.map((each) => (
        <li class={each.problem ? "problem" : ""}><Icon name="clip" /><span>{visible(each.name)}</span><span class="meta">{visible(each.problem || each.about)}</span></li>
      ))}
    </ul>
  );
}

/** A sub-agent's work: as it happens, or read when a user asks for it. */
function SubAgent({ sub }: { sub: SubTurn }) {
  const [parts, setParts] = useState<Part[] | null>(null);
  const [problem, setProblem] = useState("");
  const load = (isOpen: boolean) => {
    if (isOpen && !parts)
      messages(sub.session).then((found) => setParts(turnsOf(found).flatMap((each) => each.parts)), (error) => setProblem(String(error.message ?? error)));
  };
  return (
    <div class="sub">
      <p class="line">
        <span class="meta">{t("Sub-agent")} {visible(sub.agent)}</span>
        <a href={addressOf({ session: sub.session })}>{t("Open its session")}</a>
      </p>
      {sub.live ? (
        sub.live.parts.map((each) => <PartView key={each.key} part={each} session={null} />)
      ) : (
        <details onToggle={(event) => load(event.currentTarget.open)}>
          <summary class="meta">{t("Its work")}</summary>
          {problem && <p class="problem">{problem}</p>}
          {parts?.map((each) => <PartView key={each.key} part={each} session={sub.session} />)}
        </details>
      )}
    </div>
  );
}

const WORDS = { writing: "writing the call", running: "running", waiting: "needs your decision", done: "done", error: "error" } as const;

export const ToolCard = memo(
  function ToolCard({ part, session }: { part: ToolPart; session: string | null }) {
    const [isOpen, setOpen] = useState(false);
    const [subs, setSubs] = useState<SubTurn[]>([]);
    useEffect(() => {
      // The stored messages do not tell which session worked on the call. Without an answer the card shows the rest.
      if (isOpen && session) subAgentsOf(session, part.callId).then(setSubs, () => {});
    }, [isOpen, session, part.callId]);
    return (
      <div class={`tool ${part.state}`}>
        <button class="head" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <Icon name={isOpen ? "down" : "right"} />
          <span class="name">{visible(part.name)}</span>
          <span class="gist"><Exact text={inLine(part.progress || summary(part.args, part.written))} /></span>
          <span class={`badge ${part.state}`}>{t(WORDS[part.state])}</span>
        </button>
        {(part.sub ? [part.sub] : isOpen ? subs : []).map((each) => <SubAgent key={each.session} sub={each} />)}
        {isOpen && (
          <div class="body">
            <p class="label">{t("Arguments")}</p>
            {part.args ? <Arguments args={part.args} /> : <pre class="exact"><Exact text={part.written} /></pre>}
            {part.result !== null && (
              <>
                <p class="label">{t("Result")}{part.seq && session && <Why session={session} seq={part.seq} />}</p>
                <Files files={part.files} />
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
