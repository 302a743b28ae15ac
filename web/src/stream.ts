// Follows the events of one run. The connection is open only while the page is visible: over HTTP/1.1 a browser opens six
// connections to a host, so a stream for each of eight tabs would leave none for anything else.

import { FINAL, get, type Json, type RunInfo } from "./api";
import { parsedExactly } from "./json";

export interface RunEvent extends Json { seq: number; type: string }

export interface Watcher {
  onEvent(event: RunEvent): void;
  /** The service has no more events of this run. */
  onEnd(): void;
  onConnection(isLost: boolean): void;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;

export function follow(run: string, watcher: Watcher): () => void {
  let source: EventSource | null = null;
  let timer = 0;
  let wait = FIRST_WAIT;
  let last = 0;
  let isOver = false;

  const close = (): void => {
    source?.close();
    source = null;
    clearTimeout(timer);
  };
  const end = (): void => {
    isOver = true;
    close();
    watcher.onEnd();
  };
  const again = (): void => {
    close();
    watcher.onConnection(true);
    timer = window.setTimeout(() => void look(open), wait);
    wait = Math.min(2 * wait, LONGEST_WAIT);
  };
  // An EventSource does not tell an answer of 204 from one of 401, so the state of the run is asked for first. A turn that is
  // cancelled while it waits has no event that says so: its stream only ends.
  const look = async (otherwise: () => void): Promise<void> => {
    try {
      const { state } = await get<RunInfo>(`v1/runs/${encodeURIComponent(run)}`);
      if (!isOver) FINAL.has(state) ? end() : otherwise();
    } catch {
      if (!isOver) again();
    }
  };
  const open = (): void => {
    if (isOver || document.hidden || source) return;
    source = new EventSource(`v1/runs/${encodeURIComponent(run)}/events?after=${last}`);
    source.onopen = () => {
      wait = FIRST_WAIT;
      watcher.onConnection(false);
    };
    source.onmessage = (message) => {
      const seq = Number(message.lastEventId);
      if (seq <= last) return;
      last = seq;
      const event = { ...(parsedExactly(message.data) as Json), seq } as RunEvent;
      watcher.onEvent(event);
      if (event.type === "complete" || (event.type === "error" && event.code !== "approval_needed")) end();
    };
    source.onerror = () => { close(); void look(again); };
  };
  const onVisibility = (): void => {
    if (document.hidden) close();
    else open();
  };
  document.addEventListener("visibilitychange", onVisibility);
  open();
  return () => {
    isOver = true;
    document.removeEventListener("visibilitychange", onVisibility);
    close();
  };
}
