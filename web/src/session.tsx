// One session: its header, and the view that is chosen.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { Artifacts } from "./artifacts";
import { Chat } from "./chat";
import { ContextView } from "./context";
import { Dialog } from "./dialog";
import { type Key, t, word } from "./i18n";
import { Icon } from "./icons";
import { addressOf, go, type Place, type View, VIEWS } from "./place";
import { messageOf } from "./reading";
import { follow } from "./stream";
import { TraceView } from "./trace";
import { LiveTurn, type Turn, turnsOf } from "./transcript";

const NAMES: Record<View, Key> = { chat: "Chat", context: "Context", trace: "Trace" };

export interface Loaded {
  turns: Turn[];
  /** The run that runs or waits, and those behind it. */
  active: api.RunInfo | null;
  queued: api.RunInfo[];
  isUnanswered: boolean;
}

async function load(session: string): Promise<Loaded> {
  // Runs first: a run that ends meanwhile is followed for nothing, instead of a running one being missed.
  const runs = await api.runs(session);
  const turns = turnsOf(await api.messages(session));
  const unfinished = runs.filter((each) => !api.FINAL.has(each.state));
  const [active = null, ...queued] = unfinished;
  if (active && active.state !== "queued") {
    const last = turns[turns.length - 1];
    // What the running turn has stored so far is told by its events.
    if (last && active.prompt !== null && last.prompt?.trim() === active.prompt.trim()) turns.pop();
  }
  // The service's runs and the conversation's turns, from the newest back: the command line's turns have no run here.
  let at = turns.length - 1;
  const told = new Set<number>();
  for (const run of runs.filter((each) => api.FINAL.has(each.state) && each.started_ms !== null).reverse()) {
    const again = run.prompt === null;
    const place = again ? at : turns.findLastIndex((turn, index) => index <= at && turn.prompt?.trim() === run.prompt!.trim());
    if (place < 0) continue;
    // The newest run of a turn tells how it ended.
    if (run.state !== "complete" && !told.has(place)) {
      turns[place].failure = run.state === "cancelled" ? t("cancelled") : String(run.ending?.message ?? run.state);
      for (const part of turns[place].parts) if (part.kind === "tool" && part.result === null) part.state = "open";
    }
    told.add(place);
    // A turn that was asked again belongs to the message before it, whose own turn comes next.
    if (!again) at = place - 1;
  }
  // After a return and in a fork nobody has answered the last message: only there the service asks the model again.
  const isUnanswered = !active && turns.length > 0 && (await api.session(session)).state === "rolled-back";
  return { turns, active, queued, isUnanswered };
}

/** The turn that runs, from its events; drawn once a frame at most. */
export function useLive(run: string | null, ended: () => void): { live: LiveTurn | null; isLost: boolean } {
  const [state, draw] = useState<{ live: LiveTurn; version: number; isLost: boolean } | null>(null);
  useEffect(() => {
    if (!run) {
      draw(null);
      return;
    }
    const live = new LiveTurn();
    let version = 0;
    let isLost = false;
    let frame = 0;
    const soon = () => { frame ||= requestAnimationFrame(() => { frame = 0; draw({ live, version: ++version, isLost }); }); };
    const stop = follow(run, {
      onEvent: (event) => { live.apply(event); soon(); },
      onEnd: ended,
      onConnection: (lost) => { if (lost !== isLost) { isLost = lost; soon(); } },
    });
    draw({ live, version, isLost });
    return () => { stop(); cancelAnimationFrame(frame); };
  }, [run]);
  return { live: state?.live ?? null, isLost: state?.isLost ?? false };
}

export function SessionView(props: {
  session: string | null; info: api.SessionInfo | null; place: Place; agents: api.AgentInfo[];
  openMenu: () => void; changed: () => Promise<void>;
}) {
  const { session, place } = props;
  // A sub-agent's session is not in the list.
  const [own, setOwn] = useState<api.SessionInfo | null>(null);
  const info = props.info ?? own;
  useEffect(() => {
    if (session && !props.info) api.session(session).then(setOwn, () => {});
  }, [session, props.info === null]);
  const [loaded, setLoaded] = useState<Loaded | null>(session ? null : { turns: [], active: null, queued: [], isUnanswered: false });
  const [agentName, setAgentName] = useState(props.agents[0]?.name ?? "");
  const [problem, setProblem] = useState("");
  const [deleting, setDeleting] = useState<api.SessionInfo | null>(null);
  const [hasFiles, setFiles] = useState(false);
  const isPutAway = useRef(false);
  const reload = useCallback(async () => {
    if (!session || isPutAway.current) return;
    try {
      setLoaded(await load(session));
      setProblem("");
    } catch (error) {
      setProblem(messageOf(error));
    }
  }, [session]);
  useEffect(() => { void reload(); }, [reload]);
  useEffect(() => {
    const onShown = () => { if (!document.hidden) void reload(); };
    document.addEventListener("visibilitychange", onShown);
    return () => document.removeEventListener("visibilitychange", onShown);
  }, [reload]);
  // A run that another tab or the command line began.
  const seen = useRef(info?.updated_ms);
  useEffect(() => {
    if (info && seen.current !== undefined && info.updated_ms !== seen.current && !loaded?.active) void reload();
    seen.current = info?.updated_ms;
  }, [info?.updated_ms]);

  const ended = () => { void reload(); void props.changed(); };
  const { live, isLost } = useLive(loaded?.active?.run ?? null, ended);

  const send = async (prompt: string | null, attachments: api.Attachment[]): Promise<void> => {
    const to = session ?? (await api.newSession(agentName, prompt!)).session;
    await api.begin(to, prompt, attachments, crypto.randomUUID());
    if (session) await reload();
    else go({ session: to });
    void props.changed();
  };
  const put = async (work: (id: string) => Promise<api.SessionInfo>) => {
    try {
      const found = await work(session!);
      isPutAway.current = found.archived_ms !== null;
      setOwn(found);
      setProblem("");
      await props.changed();
      if (found.archived_ms === null) await reload();
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  const isArchived = isPutAway.current || info?.archived_ms != null;
  const remove = async () => {
    try {
      await api.deleteSession(deleting!);
      setDeleting(null);
      go({ session: null });
      await props.changed();
    } catch (error) {
      setDeleting(null);
      setProblem(messageOf(error));
    }
  };

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.altKey && event.key.toLowerCase() === "c" && session) {
        event.preventDefault();
        go({ session, view: place.view === "context" ? "chat" : "context" });
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [session, place.view]);

  const agent = props.agents.find((each) => each.name === (info?.agent.split("/")[0] ?? agentName)) ?? props.agents[0];
  return (
    <>
      <header class="bar top">
        <button class="quiet only-narrow" aria-label={t("Menu")} onClick={props.openMenu}><Icon name="menu" /></button>
        <div class="heading">
          <h1>{info?.title || (info?.parent ? `${t("Sub-agent")} ${info.agent}` : t("New session"))}</h1>
          {agent && <span class="meta">{agent.name} · {live?.model || agent.model}</span>}
        </div>
        {session && (
          <>
            <div class="tabs" role="tablist" aria-label={t("View")}>
              {VIEWS.map((view) => (
                <a key={view} role="tab" aria-selected={place.view === view} href={addressOf({ session, view })}>{t(NAMES[view])}</a>
              ))}
            </div>
            <details class="menu">
              <summary class="quiet" aria-label={t("More")}><Icon name="dots" /></summary>
              <div class="popup">
                <button onClick={(event) => { event.currentTarget.closest("details")!.open = false; setFiles(true); }}>{t("Files that tools wrote")}</button>
                <a href={addressOf({ session, room: "plan", agent: agent?.name })}>{t("Plan of this session")}</a>
                <a href={api.exported(session, "markdown")} download={`${session}.md`}>{t("Export as Markdown")}</a>
                <a href={api.exported(session, "json")} download={`${session}.json`}>{t("Export as JSON")}</a>
                {!isArchived && <button onClick={(event) => { event.currentTarget.closest("details")!.open = false; void put(api.archive); }}>{t("Archive")}</button>}
                <button onClick={(event) => { event.currentTarget.closest("details")!.open = false; void api.session(session).then(setDeleting, (error) => setProblem(messageOf(error))); }}>{t("Delete")}</button>
              </div>
            </details>
          </>
        )}
      </header>
      {problem && !isArchived && <p class="banner problem" role="alert">{problem}</p>}
      {isArchived ? (
        <p class="empty">{t("This session is archived.")} <button onClick={() => void put(api.restore)}>{t("Restore")}</button></p>
      ) : place.view === "context" && session ? (
        <ContextView session={session} place={place} version={loaded?.turns.length ?? 0} isRunning={!!loaded?.active} />
      ) : place.view === "trace" && session ? (
        <TraceView session={session} version={loaded?.turns.length ?? 0} />
      ) : (
        loaded && (
          <Chat
            session={session} loaded={loaded} live={live} isLost={isLost} place={place} send={send} reload={reload}
            parent={info?.parent ?? ""} agent={agent} agents={props.agents} chooseAgent={session ? null : setAgentName}
          />
        )
      )}
      {hasFiles && session && <Artifacts session={session} close={() => setFiles(false)} />}
      {deleting && (
        <Dialog title={t("Delete")} close={() => setDeleting(null)}>
          <p>{t("Delete this session with all its messages, its sub-agents' sessions, and the files and memories that it has alone?")}</p>
          <div class="actions">
            <button onClick={() => setDeleting(null)}>{t("Cancel")}</button>
            <button class="danger" onClick={() => void remove()}>{t("Delete")}</button>
          </div>
        </Dialog>
      )}
      <p class="sr" role="status">{loaded?.active ? word(loaded.active.state) : ""}</p>
    </>
  );
}
