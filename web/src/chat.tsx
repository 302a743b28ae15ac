// The conversation, and where the user writes.

import { memo } from "preact/compat";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { Approvals } from "./approvals";
import { AttachButton, AttachedFiles, type Attaching, useAttaching } from "./attaching";
import { Dialog } from "./dialog";
import { t, word } from "./i18n";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { addressOf, type Place } from "./place";
import type { Loaded } from "./session";
import { Files, ToolCard } from "./tools";
import { type KeptFile, type LiveTurn, type Part, type Task, tasksOf, type Turn } from "./transcript";

export function PartView({ part, session, of }: { part: Part; session: string | null; of?: string | null }) {
  if (part.kind === "tool") return <ToolCard part={part} session={session} of={of} />;
  if (part.kind === "reasoning")
    return (
      <details class="reasoning">
        <summary>{t("Reasoning")}</summary>
        <Markdown text={part.text} />
      </details>
    );
  if (part.kind === "note") return <p class="note">{part.text}</p>;
  return (
    <div class="said">
      <Markdown text={part.text} />
      {part.seq && session && <Why session={session} seq={part.seq} />}
    </div>
  );
}

export function Why({ session, seq }: { session: string; seq: number }) {
  return (
    <a class="why" href={addressOf({ session, view: "context", message: seq })} title={t("Why did it forget?")}>
      <Icon name="question" /><span>{t("Why did it forget?")}</span>
    </a>
  );
}

function Prompt({ text, seq, session, back, files = [] }: {
  text: string; seq: number | null; session: string | null; back?: (seq: number, text: string) => void; files?: KeptFile[];
}) {
  return (
    <div class="prompt" data-seq={seq}>
      <div class="bubble">{text}</div>
      <Files files={files} session={session} seq={seq} />
      {seq && session && (
        <span class="deeds">
          {back && <button class="link" onClick={() => back(seq, text)}>{t("Go back to here")}</button>}
          <Why session={session} seq={seq} />
        </span>
      )}
    </div>
  );
}

const TurnView = memo(function TurnView({ turn, session, back }: { turn: Turn; session: string | null; back: (seq: number, text: string) => void }) {
  return (
    <article class="turn">
      {turn.prompt !== null && <Prompt text={turn.prompt} seq={turn.seq} session={session} back={back} files={turn.files} />}
      {turn.parts.map((part) => (
        <div key={part.key} data-seq={part.seq}><PartView part={part} session={session} /></div>
      ))}
      {turn.failure && <p class="failure">{turn.failure}</p>}
    </article>
  );
});

function Tasks({ tasks }: { tasks: Task[] }) {
  const done = tasks.filter((each) => each.status === "completed").length;
  return (
    <details class="tasks">
      <summary>
        {t("Tasks")} <span class="meta">{t("{a} of {b} done", { a: done, b: tasks.length })}</span>
        <progress value={done} max={tasks.length} aria-label={t("Tasks")} />
      </summary>
      <ul>
        {tasks.map((each) => (
          <li class={each.status}>{each.content}</li>
        ))}
      </ul>
    </details>
  );
}

export function Chat(props: {
  session: string | null; loaded: Loaded; live: LiveTurn | null; isLost: boolean; place: Place;
  send: (prompt: string | null, attachments: api.Attachment[]) => Promise<void>; reload: () => Promise<void>;
  parent: string; agent: api.AgentInfo | undefined; agents: api.AgentInfo[]; chooseAgent: ((name: string) => void) | null;
}) {
  const { loaded, live, session } = props;
  const box = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const sticks = useRef(true);
  useLayoutEffect(() => {
    if (sticks.current && !props.place.message && box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  useEffect(() => {
    const seq = props.place.message;
    if (!seq) return;
    const found = box.current?.querySelector(`[data-seq="${seq}"]`);
    found?.scrollIntoView({ block: "center" });
    found?.classList.add("target");
  }, [props.place.message, loaded]);
  // An approval below makes the conversation's box lower, and its end should stay in sight.
  useEffect(() => {
    const watcher = new ResizeObserver(() => { if (sticks.current && box.current) box.current.scrollTop = box.current.scrollHeight; });
    watcher.observe(box.current!);
    return () => watcher.disconnect();
  }, []);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    sticks.current = scrollHeight - scrollTop - clientHeight < 40;
    if (sticks.current !== isAtEnd) setAtEnd(sticks.current);
  };
  const toEnd = () => {
    sticks.current = true;
    setAtEnd(true);
    box.current!.scrollTop = box.current!.scrollHeight;
  };
  const [goal, setGoal] = useState<{ seq: number; text: string } | null>(null);
  const [draft, setDraft] = useState<{ text: string } | null>(null);
  const [problem, setProblem] = useState("");
  const askBack = useCallback((seq: number, text: string) => setGoal({ seq, text }), []);
  const goBack = async () => {
    try {
      await api.rollback(session!, goal!.seq);
      // To be said otherwise, the prompt is in the field again.
      setDraft({ text: goal!.text });
      setProblem("");
      await props.reload();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    setGoal(null);
  };
  const attaching = useAttaching();
  const [isOver, setOver] = useState(false);
  const onDrag = (event: DragEvent) => {
    if (props.parent || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    setOver(event.type === "dragover");
    if (event.type === "drop") attaching.add(event.dataTransfer.files);
  };
  const isRunning = loaded.active !== null;
  const lastTurn = loaded.turns[loaded.turns.length - 1];
  const isUnanswered = loaded.isUnanswered && lastTurn !== undefined && lastTurn.parts[lastTurn.parts.length - 1]?.kind !== "text";
  const again = async () => {
    try {
      await props.send(null, []);
      setProblem("");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const tasks = tasksOf([...loaded.turns, ...(live ? [{ parts: live.parts }] : [])]);
  const isEmpty = !loaded.turns.length && !isRunning;
  return (
    <div class={isOver ? "chat over" : "chat"} onDragOver={onDrag} onDrop={onDrag} onDragLeave={() => setOver(false)}>
      <div class="scroller" ref={box} onScroll={onScroll} tabIndex={0} role="region" aria-label={t("Conversation")}>
        <div class="column">
          {isEmpty && (
            <div class="welcome">
              <h2>{t("What would you like to do?")}</h2>
              {props.chooseAgent && props.agents.length > 1 && (
                <label class="inline">
                  {t("Agent")}
                  <select value={props.agent?.name} onChange={(event) => props.chooseAgent!(event.currentTarget.value)}>
                    {props.agents.map((each) => <option key={each.name}>{each.name}</option>)}
                  </select>
                </label>
              )}
              {props.agent?.description && <p class="meta">{props.agent.description}</p>}
            </div>
          )}
          {loaded.turns.map((turn) => <TurnView key={turn.key} turn={turn} session={session} back={askBack} />)}
          {isUnanswered && <p><button onClick={() => void again()}>{t("Ask the model again")}</button></p>}
          {loaded.active && (
            <article class="turn live" aria-busy={loaded.active.state === "running"}>
              {loaded.active.prompt !== null && <Prompt text={loaded.active.prompt} seq={null} session={null} />}
              {live?.parts.map((part) => <PartView key={part.key} part={part} session={null} of={session} />)}
              {!live?.isWaiting && <p class="working"><span class="dot" />{live?.notice}</p>}
            </article>
          )}
          {loaded.queued.map((run) => (
            <div key={run.run} class="prompt queued">
              <div class="bubble">{run.prompt ?? t("Ask the model again")}</div>
              <span class="meta">
                {t("Queued")} · <button class="link" onClick={() => void api.cancel(run.run).then(props.reload)}>{t("Remove")}</button>
              </span>
            </div>
          ))}
        </div>
      </div>
      {!isAtEnd && <button class="to-end" onClick={toEnd}><Icon name="down" />{t("Newest")}</button>}
      <div class="foot column">
        {props.isLost && <p class="banner" role="status">{t("The connection is lost. Trying again…")}</p>}
        {live && live.asked.size > 0 && <Approvals ids={[...live.asked.keys()]} reload={props.reload} />}
        {tasks.length > 0 && <Tasks tasks={tasks} />}
        {problem && <p class="problem" role="alert">{problem}</p>}
        {props.parent ? <p class="meta"><a href={addressOf({ session: props.parent })}>{t("This session is a sub-agent's. Back to its parent")}</a></p> : <Composer
          key={session ?? "new"} draft={draft} session={session} agent={props.agent?.name ?? ""} active={loaded.active}
          send={async (text, files) => { toEnd(); await props.send(text, files); }} attaching={attaching} reload={props.reload}
        />}
      </div>
      {goal && (
        <Dialog title={t("Go back to here")} close={() => setGoal(null)}>
          <p>{t("Go back to this message? Later messages are set aside.")}</p>
          <div class="bubble">{goal.text}</div>
          <div class="actions">
            <button onClick={() => setGoal(null)}>{t("Cancel")}</button>
            <button class="primary" onClick={() => void goBack()}>{t("Go back")}</button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

function Composer(props: {
  draft: { text: string } | null; session: string | null; agent: string; active: api.RunInfo | null; attaching: Attaching;
  send: (text: string, attachments: api.Attachment[]) => Promise<void>; reload: () => Promise<void>;
}) {
  const { attaching } = props;
  const place = `draft ${props.session ?? ""}`;
  const [text, setText] = useState(sessionStorage.getItem(place) ?? "");
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  const [stopping, setStopping] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const area = field.current!;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, 240)}px`;
    sessionStorage.setItem(place, text);
  }, [text]);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) field.current?.focus();
  }, []);
  useEffect(() => {
    if (!props.draft) return;
    setText(props.draft.text);
    field.current!.focus();
  }, [props.draft]);
  const submit = async () => {
    const prompt = text.trim();
    if (!prompt || isSending) return;
    setSending(true);
    setText("");
    try {
      await props.send(prompt, await attaching.ready());
      attaching.clear();
      setProblem("");
    } catch (error) {
      setText(prompt);
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setSending(false);
    }
  };
  const stop = async () => {
    setStopping(props.active!.run);
    try {
      await api.cancel(props.active!.run);
      // A turn that waits is over by now.
      await props.reload();
    } catch (error) {
      setStopping("");
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      void submit();
    }
  };
  const isStopping = props.active !== null && stopping === props.active.run;
  return (
    <>
      {problem && <p class="problem" role="alert">{problem}</p>}
      <AttachedFiles files={attaching.files} remove={attaching.remove} />
      <form class="composer" onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <textarea
          ref={field} rows={1} value={text} placeholder={t("Message {agent}", { agent: props.agent })} aria-label={t("Message")}
          onInput={(event) => setText(event.currentTarget.value)} onKeyDown={onKey}
          onPaste={(event) => { if (event.clipboardData?.files.length) { event.preventDefault(); attaching.add(event.clipboardData.files); } }}
        />
        <AttachButton add={attaching.add} />
        {props.active && (
          <button type="button" class="stop" disabled={isStopping} onClick={() => void stop()}>
            <Icon name="stop" />{isStopping ? t("Stopping…") : t("Stop")}
          </button>
        )}
        <button class="primary round" aria-label={props.active ? t("Queue") : t("Send")} title={props.active ? t("Queue") : t("Send")} disabled={!text.trim() || isSending}>
          <Icon name="send" />
        </button>
      </form>
      {props.active && props.active.state !== "running" && <p class="sr">{word(props.active.state)}</p>}
    </>
  );
}
