// The service's API. Every request goes to the address that the page came from.

import { parsed } from "./json";

export interface AgentInfo { name: string; description: string; model: string; digest: string }
export interface SessionInfo {
  session: string; agent: string; title: string; messages: number; created_ms: number; updated_ms: number;
  state: string; archived_ms: number | null; parent: string;
}
export type RunState = "queued" | "running" | "waiting" | "complete" | "failed" | "cancelled";
export interface RunInfo {
  run: string; session: string; number: number; state: RunState; prompt: string;
  created_ms: number; started_ms: number | null; ended_ms: number | null; ending: Json | null;
}
export interface Approval {
  id: string; session: string; call_id: string; tool_name: string; parameters: Json; reason: string;
  answer_schema?: Json; created_ms: number; expires_ms: number | null; agent: string;
  may_remember?: boolean; may_change?: boolean; seen?: string | null; lines?: ShownLine[]; whole?: ShownLine[]; editable?: string;
}
/** A line of a question as the service shows it, with unseen characters as escapes. */
export interface ShownLine { text: string; style: "plain" | "red" | "green" | "yellow" | "dim" | "bold" }
export type Json = Record<string, any>;

/** An answer other than success, as the service tells it (RFC 9457). */
export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly remedy = "") {
    super(remedy ? `${message} ${remedy}` : message);
  }
}

/** Called when the service does not know us: it was started anew, or we never logged in. */
let onStranger: () => void = () => {};
export function whenStranger(call: () => void): void { onStranger = call; }

export async function call<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  const answer = await fetch(path, {
    method,
    credentials: "same-origin",
    headers: {
      ...(method === "GET" ? {} : { "X-Zeus-Page": "1" }),
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...headers,
    },
    body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
  });
  if (answer.ok) return (answer.status === 204 ? undefined : parsed(await answer.text())) as T;
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "login") onStranger();
  throw new Problem(answer.status, told.code ?? "http", told.detail ?? `HTTP ${answer.status}`, told.remedy ?? "");
}

export const get = <T>(path: string): Promise<T> => call<T>("GET", path);
export const post = <T>(path: string, body?: unknown, headers?: Record<string, string>): Promise<T> => call<T>("POST", path, body, headers);

const of = (session: string): string => `v1/sessions/${encodeURIComponent(session)}`;

export const agents = () => get<AgentInfo[]>("v1/agents");
export const sessions = () => get<SessionInfo[]>("v1/sessions");
export const session = (id: string) => get<SessionInfo>(of(id));
export const newSession = (agent: string, title: string) => post<SessionInfo>("v1/sessions", { agent, title });
export const deleteSession = (id: string) => call<void>("DELETE", of(id));
export const messages = (id: string) => get<Json[]>(`${of(id)}/messages`);
export const runs = (id: string) => get<RunInfo[]>(`${of(id)}/runs`);
export const begin = (id: string, prompt: string, key: string) =>
  post<RunInfo>(`${of(id)}/runs?queue=1`, { prompt }, { "Idempotency-Key": key });
export const rollback = (id: string, to: number) => post<Json>(`${of(id)}/rollback`, { to, before: true });
export const cancel = (run: string) => post<RunInfo>(`v1/runs/${encodeURIComponent(run)}/cancel`);
export const approvals = () => get<Approval[]>("v1/approvals");
export const approval = (id: string) => get<Approval>(`v1/approvals/${encodeURIComponent(id)}`);
export const decide = (id: string, body: Json | string) => post<Json>(`v1/approvals/${encodeURIComponent(id)}`, body);
export const login = (token: string) => post<void>("login", { token });
export const logout = () => post<void>("logout");
