// A conversation as turns: from stored messages, and from the events of a turn that runs. Pure.

import type { Json } from "./api";
import { isSame } from "./json";
import type { RunEvent } from "./stream";

export interface TextPart { kind: "text" | "reasoning" | "note"; key: string; text: string; seq?: number }
/** `open`: its turn ended, and the call has no result. */
export type ToolState = "writing" | "running" | "waiting" | "done" | "error" | "open";
export interface ToolPart {
  kind: "tool"; key: string; callId: string; name: string; args: Json | null; written: string;
  state: ToolState; result: string | null; seq?: number; progress: string; sub: SubTurn | null; files: KeptFile[];
  /** The texts that the call changed; null while that is not known. */
  changes: KeptChange[] | null;
  /** The arguments with which a user let the call run instead of its own. */
  changed: Json | null;
}
/** A text that a call changed; with `uncompared` lines, at least so many were removed and added. */
export interface KeptChange { path: string; removed: number; added: number; uncompared?: number }
/** The session that worked on a call's task; `live` while it works. */
export interface SubTurn { agent: string; session: string; live: LiveTurn | null }
export type Part = TextPart | ToolPart;

/** A file or a picture that a message brought along; `path` names its kept bytes, and is empty without any. */
export interface KeptFile { name: string; about: string; problem: string; path: string; isPicture: boolean }

export interface Turn { key: string; prompt: string | null; seq: number | null; parts: Part[]; failure: string; files: KeptFile[] }

const textOf = (content: unknown): string => {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((each) => (typeof each === "string" ? each : (each?.text ?? ""))).join("");
};

const isUsers = (message: Json): boolean =>
  message.role === "user" && !(message.additional_kwargs && "from_runtime" in message.additional_kwargs);

function filesOf(message: Json): KeptFile[] {
  const { references = [], pictures = [] } = (message.additional_kwargs ?? {}) as { references?: Json[]; pictures?: Json[] };
  const seen = new Set(pictures.map((each) => each.name || each.path));
  return [
    ...pictures.map((each) => ({ name: String(each.name || each.path), about: `${each.width}×${each.height}`, problem: "", path: String(each.path), isPicture: true })),
    ...references.filter((each) => !seen.has(each.path)).map((each) => ({
      name: String(each.path), about: each.folder || !each.size_bytes ? "" : `${Math.max(1, Math.round(each.size_bytes / 1000))} kB`, problem: String(each.problem ?? ""), path: String(each.copy ?? ""), isPicture: false,
    })),
  ];
}

/** Stored messages as turns. */
export function turnsOf(messages: Json[]): Turn[] {
  const turns: Turn[] = [];
  const calls = new Map<string, ToolPart>();
  messages.forEach((message, index) => {
    const seq = index + 1;
    if (isUsers(message)) {
      turns.push({ key: `m${seq}`, prompt: textOf(message.content), seq, parts: [], failure: "", files: filesOf(message) });
      return;
    }
    if (!turns.length) turns.push({ key: "m0", prompt: null, seq: null, parts: [], failure: "", files: [] });
    const { parts } = turns[turns.length - 1];
    if (message.role === "assistant") {
      const reasoning = message.additional_kwargs?.reasoning_content;
      if (reasoning) parts.push({ kind: "reasoning", key: `r${seq}`, text: String(reasoning), seq });
      const text = textOf(message.content);
      if (text) parts.push({ kind: "text", key: `t${seq}`, text, seq });
      for (const call of [...(message.tool_calls ?? []), ...(message.invalid_tool_calls ?? [])]) {
        const isValid = typeof call.args === "object" && call.args !== null;
        const part: ToolPart = {
          kind: "tool", key: `c${seq}-${call.id}`, callId: call.id, name: call.name ?? "", args: isValid ? call.args : null,
          written: isValid ? "" : String(call.args ?? ""), state: "running", result: null, seq, progress: "", sub: null, files: [], changes: [], changed: null,
        };
        calls.set(call.id, part);
        parts.push(part);
      }
    } else if (message.role === "tool") {
      const part = calls.get(message.tool_call_id);
      if (part) {
        part.result = textOf(message.content);
        part.state = message.is_error ? "error" : "done";
        part.seq = seq;
        part.files = filesOf(message);
        part.changes = message.artifact?.changes ?? [];
        part.changed = ((message.decisions ?? []) as Json[]).findLast((each) => each.kind === "call")?.changed ?? null;
      }
    } else {
      parts.push({ kind: "note", key: `n${seq}`, text: textOf(message.content), seq });
    }
  });
  return turns;
}

const PIECES = new Set(["text", "reasoning", "tool_call_chunk", "output_partial"]);

/** The turn that runs, from its events. */
export class LiveTurn {
  parts: Part[] = [];
  isWaiting = false;
  isStarted = false;
  /** Calls that wait for a decision, by the id of the request. */
  readonly asked = new Map<string, string>();
  model = "";
  notice = "";
  private events: RunEvent[] = [];
  private written = new Map<number, ToolPart>();
  private answer = 0;

  apply(event: RunEvent): void {
    if (event.type === "reset") {
      this.replay((each) => !(PIECES.has(each.type) && each.seq > event.after));
      return;
    }
    if (event.type === "model_retry" || event.type === "model_changed") {
      const began = this.events.findLast((each) => each.type === "model_call" && each.purpose === "turn")?.seq ?? 0;
      this.replay((each) => !(PIECES.has(each.type) && each.seq > began));
      this.notice = event.reason ?? "";
      return;
    }
    this.events.push(event);
    this.reduce(event);
  }

  private replay(keeps: (event: RunEvent) => boolean): void {
    const kept = this.events.filter(keeps);
    this.parts = [];
    this.asked.clear();
    this.written.clear();
    this.isWaiting = false;
    this.answer = 0;
    this.events = kept;
    for (const each of kept) this.reduce(each);
  }

  private reduce(event: RunEvent): void {
    switch (event.type) {
      case "run_started":
        this.isStarted = true;
        this.isWaiting = false;
        this.model = event.model;
        break;
      case "model_call":
        if (event.purpose === "turn") {
          this.answer = event.seq;
          this.written.clear();
          this.notice = "";
        } else this.notice = event.purpose;
        break;
      case "text":
      case "reasoning":
        this.append(event.type, event);
        break;
      case "tool_call_chunk":
        this.chunk(event);
        break;
      case "tool_call": {
        const part = this.tool(event.call_id, event.tool_name, event.seq);
        part.args = event.parameters;
        if (part.state === "writing") part.state = event.requires_approval ? "waiting" : "running";
        break;
      }
      case "tool_progress": {
        const part = this.find(event.call_id);
        if (part) part.progress = progress(event);
        break;
      }
      case "tool_call_result": {
        const part = this.tool(event.call_id, event.tool_name, event.seq);
        part.result = event.content;
        part.state = event.is_error ? "error" : "done";
        part.seq = event.number || undefined;
        break;
      }
      case "approval_requested": {
        this.asked.set(event.id, event.call_id);
        const part = this.find(event.call_id);
        if (part) part.state = "waiting";
        break;
      }
      case "approval_decided": {
        for (const [id, callId] of this.asked) if (callId === event.call_id) this.asked.delete(id);
        const part = this.find(event.call_id);
        if (part?.state === "waiting") part.state = "running";
        if (part && event.kind === "call") part.changed = event.changed && !isSame(event.changed, event.parameters) ? event.changed : null;
        break;
      }
      case "subagent": {
        const part = this.find(event.call_id);
        if (part) {
          part.sub ??= { agent: event.agent, session: event.session, live: new LiveTurn() };
          part.sub.live!.apply({ ...event.event, seq: event.seq });
        }
        break;
      }
      case "notice":
        this.notice = event.message ?? "";
        break;
      case "error":
        this.isWaiting = event.code === "approval_needed";
        break;
    }
  }

  private append(kind: "text" | "reasoning", event: RunEvent): void {
    const last = this.parts[this.parts.length - 1];
    const key = `${kind[0]}${this.answer}-`;
    if (last?.kind === kind && last.key.startsWith(key)) last.text += event.text;
    else this.parts.push({ kind, key: `${key}${this.parts.length}`, text: event.text });
  }

  private chunk(event: RunEvent): void {
    let part = this.written.get(event.index);
    if (!part) {
      part = this.tool(event.call_id ?? `${event.seq}`, event.tool_name ?? "", event.seq, "writing");
      this.written.set(event.index, part);
    }
    part.written += event.arguments;
  }

  private find(callId: string): ToolPart | undefined {
    return this.parts.findLast((each): each is ToolPart => each.kind === "tool" && each.callId === callId);
  }

  private tool(callId: string, name: string, id: number, state: ToolState = "writing"): ToolPart {
    const known = this.find(callId);
    // Providers may use a call's id again in a later answer; a call with a result is over.
    if (known && known.result === null) return known;
    const part: ToolPart = {
      kind: "tool", key: `c${id}-${callId}`, callId, name, args: null, written: "", state, result: null, progress: "", sub: null, files: [], changes: null, changed: null,
    };
    this.parts.push(part);
    return part;
  }
}

function progress(event: RunEvent): string {
  const parts = event.done == null ? "" : event.total == null ? ` ${event.done}` : ` ${event.done}/${event.total}`;
  return `${event.message ?? ""}${parts}`.trim();
}

export interface Task { content: string; status: string }

/** The agent's task list: what the newest call that wrote one says. */
export function tasksOf(turns: { parts: Part[] }[]): Task[] {
  for (const turn of [...turns].reverse())
    for (const part of [...turn.parts].reverse())
      if (part.kind === "tool" && part.name === "write_todos" && part.state !== "error" && Array.isArray(part.args?.todos))
        return part.args.todos as Task[];
  return [];
}
