// A tool call as a card: its name, its arguments, its state and its result.

import { memo } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { fileOf, type Json, madeChanges, messages } from "./api";
import { Shown } from "./approvals";
import { PartView, Why } from "./chat";
import { number, t } from "./i18n";
import { Exact } from "./exact";
import { Icon } from "./icons";
import { addressOf } from "./place";
import { useRead } from "./reading";
import { subAgentsOf } from "./trace";
import { type KeptChange, type KeptFile, type Part, type SubTurn, type ToolPart, turnsOf } from "./transcript";
import { doubled, inLine } from "./visible";

const MOST_OF_LINE = 160;

/** One line of the arguments: the first values. */
function summary(args: Json | null, written: string): string {
  if (!args) return written;
  return Object.values(args)
    .map((value) => (typeof value === "string" ? doubled(value) : JSON.stringify(value)))
    .join("  ");
}

/** Arguments: a text as it is, anything else as JSON with this word before it; unseen characters are escapes. */
function Arguments({ args }: { args: Json }) {
  const entries = Object.entries(args);
  if (!entries.length) return <pre class="exact">{"{}"}</pre>;
  return (
    <dl class="arguments">
      {entries.map(([name, value]) => [
        <dt key={`${name}:`}><Exact text={/^\S+$/.test(name) ? doubled(name) : JSON.stringify(name)} /></dt>,
        <dd key={name}>
          {typeof value === "string" ? <pre class="exact"><Exact text={doubled(value)} /></pre> : <pre class="exact json"><Exact text={JSON.stringify(value, null, 2)} /></pre>}
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
      <pre class="exact result" tabIndex={0}>{isLong && !isWhole ? `${text.slice(0, MOST)}…` : text}</pre>
      {isLong && !isWhole && <button class="link" onClick={() => setWhole(true)}>{t("show all {n} characters", { n: number(text.length) })}</button>}
    </>
  );
}

/** What a message brought along: pictures to look at, other files to save. */
export function Files({ files, session, seq }: { files: KeptFile[]; session: string | null; seq?: number | null }) {
  if (!files.length) return null;
  return (
    <ul class="files">
      {files.map((each) => <File key={each.path || each.name} file={each} address={session && seq && each.path ? fileOf(session, seq, each.path) : ""} />)}
    </ul>
  );
}

function File({ file, address }: { file: KeptFile; address: string }) {
  // Bytes that were deleted, or that the access rules close: the name is left.
  const [isGone, setGone] = useState(false);
  const name = file.name;
  const about = <span class="meta">{file.problem || file.about}</span>;
  if (address && file.isPicture && !isGone)
    return (
      <li class="picture">
        <a href={address} download={file.name}><img src={address} alt="" loading="lazy" onError={() => setGone(true)} /><span>{name}</span></a>{about}
      </li>
    );
  return (
    <li class={file.problem ? "problem" : ""}>
      <Icon name="clip" />{address && !isGone ? <a href={address} download={file.name}>{name}</a> : <span>{name}</span>}{about}
    </li>
  );
}

/** The change that a call made, as the question about it showed it. */
function Made({ session, seq }: { session: string; seq: number }) {
  const { value, problem } = useRead(() => madeChanges(session, seq), [session, seq]);
  if (problem) return <p class="problem">{problem}</p>;
  if (!value?.lines.length) return null;
  return (
    <>
      <p class="label">{t("Change")}</p>
      <div class="exactly"><Shown lines={value.lines} /></div>
    </>
  );
}

/** How many lines a call's changes added and removed. */
function Size({ changes }: { changes: KeptChange[] }) {
  const [added, removed, open] = changes.reduce(
    ([more, less, unsure], each) => [more + each.added, less + each.removed, unsure + (each.uncompared ?? 0)], [0, 0, 0]);
  if (!added && !removed && !open) return null;
  const title = open
    ? t("At least {a} lines added, {b} removed; {c} not compared", { a: added, b: removed, c: open })
    : t("{a} lines added, {b} removed", { a: added, b: removed });
  return <span class="size" title={title}>{open > 0 && "≥ "}<ins>+{added}</ins> <del>−{removed}</del></span>;
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
        <span class="meta">{t("Sub-agent")} {sub.agent}</span>
        <a href={addressOf({ session: sub.session })}>{t("Open its session")}</a>
      </p>
      {sub.live ? (
        sub.live.parts.map((each) => <PartView key={each.key} part={each} session={null} of={sub.session} />)
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

const WORDS = { writing: "writing the call", running: "running", waiting: "needs your decision", done: "done", error: "error", open: "not finished" } as const;

export const ToolCard = memo(
  /** `of`: the session of a call whose turn still runs. */
  function ToolCard({ part, session, of = null }: { part: ToolPart; session: string | null; of?: string | null }) {
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
          <span class="name"><Exact text={doubled(part.name)} /></span>
          <span class="gist"><Exact text={inLine(part.progress || summary(part.changed ?? part.args, part.written), MOST_OF_LINE)} /></span>
          {part.changes && <Size changes={part.changes} />}
          {part.changed && <span class="badge">{t("arguments changed")}</span>}
          <span class={`badge ${part.state}`}>{t(WORDS[part.state])}</span>
        </button>
        {(part.sub ? [part.sub] : isOpen ? subs : []).map((each) => <SubAgent key={each.session} sub={each} />)}
        {isOpen && (
          <div class="body">
            {part.state === "done" && part.seq && (session ?? of) && part.changes?.length !== 0 && <Made session={(session ?? of)!} seq={part.seq} />}
            <p class="label">{t("Arguments")}</p>
            {part.args ? <Arguments args={part.args} /> : <pre class="exact"><Exact text={part.written} /></pre>}
            {part.changed && <><p class="label">{t("Changed to")}</p><Arguments args={part.changed} /></>}
            {part.result !== null && (
              <>
                <p class="label">{t("Result")}{part.seq && session && <Why session={session} seq={part.seq} />}</p>
                <Files files={part.files} session={session} seq={part.seq} />
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
