// The service's API. Every request goes to the address that the page came from.

import { parsed, parsedExactly } from "./json";

export interface AgentInfo { name: string; description: string; model: string; digest: string; memory: boolean; knowledge: string[] }
export interface SessionInfo {
  session: string; agent: string; title: string; messages: number; created_ms: number; updated_ms: number;
  state: string; archived_ms: number | null; parent: string;
}
export type RunState = "queued" | "running" | "waiting" | "complete" | "failed" | "cancelled";
/** The states of a turn that is over. */
export const FINAL = new Set<RunState>(["complete", "failed", "cancelled"]);
export interface RunInfo {
  run: string; session: string; number: number; state: RunState;
  /** Null for a turn that answers the last message again. */
  prompt: string | null;
  created_ms: number; started_ms: number | null; ended_ms: number | null; ending: Json | null;
}
export interface Approval {
  id: string; session: string; call_id: string; tool_name: string; parameters: Json; reason: string;
  answer_schema?: Json; created_ms: number; expires_ms: number | null; agent: string;
  may_remember?: boolean; may_change?: boolean; seen?: string | null; form?: FormField[]; lines?: ShownLine[]; whole?: ShownLine[]; editable?: string;
}
/** The texts of a field of a question's form, as the service shows them. */
export interface FormField { name: string; title: string; about?: string; default?: string; choices: string[] }
/** A line of a question as the service shows it, with unseen characters as escapes. */
export interface ShownLine { text: string; style: "plain" | "red" | "green" | "yellow" | "dim" | "bold"; moment?: { text: string; at_ms: number } }
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
  const answer = await answered(method, path, body, headers);
  return (answer.status === 204 ? undefined : parsed(await answer.text())) as T;
}

/** The answer of a successful request. */
async function answered(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const answer = await fetch(path, {
    method,
    credentials: "same-origin",
    headers: {
      ...(method === "GET" ? {} : { "X-Zeus-Page": "1" }),
      ...(body === undefined || body instanceof Blob ? {} : { "Content-Type": "application/json" }),
      ...headers,
    },
    body: body === undefined || typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body),
  });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "login") onStranger();
  throw new Problem(answer.status, told.code ?? "http", told.detail ?? `HTTP ${answer.status}`, told.remedy ?? "");
}

/** A list's part, and the address of the next one. */
export interface ListPart<T> { value: T; next: string | null }

export async function part<T>(path: string): Promise<ListPart<T>> {
  const answer = await answered("GET", path);
  const next = /<([^>]+)>;\s*rel="?next/.exec(answer.headers.get("Link") ?? "")?.[1];
  // The service names itself by the host that it was asked at; relative to it the page may be behind a prefix.
  return { value: parsed(await answer.text()), next: next ? path.split("?")[0] + new URL(next, location.href).search : null };
}

/** A thing, and its `ETag`: an edit that sends it in `If-Match` is refused if another one came first. */
export async function tagged<T>(path: string): Promise<{ value: T; tag: string }> {
  const answer = await answered("GET", path);
  return { value: parsed(await answer.text()), tag: answer.headers.get("ETag") ?? "*" };
}

export const get = <T>(path: string): Promise<T> => call<T>("GET", path);
/** As `get`, for what is shown to a person as it came: `1.0` stays `1.0`. */
const getExactly = async <T>(path: string): Promise<T> => parsedExactly(await (await answered("GET", path)).text()) as T;
export const post = <T>(path: string, body?: unknown, headers?: Record<string, string>): Promise<T> => call<T>("POST", path, body, headers);

const of = (session: string): string => `v1/sessions/${encodeURIComponent(session)}`;

export const agents = () => get<AgentInfo[]>("v1/agents");
/** The sessions used last; more are slow to draw, and nobody reads them. */
export const sessions = () => part<SessionInfo[]>("v1/sessions?limit=200");
export const session = (id: string) => get<SessionInfo>(of(id));
export const newSession = (agent: string, title: string) => post<SessionInfo>("v1/sessions", { agent, title });
/** Delete a session as it was read; one that changed since stays. */
export const deleteSession = (read: SessionInfo) =>
  call<void>("DELETE", `${of(read.session)}?messages=${read.messages}&updated_ms=${read.updated_ms}`);
export const messages = (id: string) => getExactly<Json[]>(`${of(id)}/messages`);
export const runs = (id: string) => get<RunInfo[]>(`${of(id)}/runs`);
/** Without a prompt the model is asked again about the last message. */
export const begin = (id: string, prompt: string | null, attachments: Attachment[], key: string) =>
  post<RunInfo>(`${of(id)}/runs?queue=1`, prompt === null ? { resume: true } : { prompt, attachments }, { "Idempotency-Key": key });
export interface Attachment { sha256: string; name: string }
export async function upload(file: File): Promise<Attachment> {
  const data = await file.arrayBuffer();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  const sha256 = [...digest].map((each) => each.toString(16).padStart(2, "0")).join("");
  await answered("PUT", `v1/files/${sha256}`, new Blob([data], { type: "application/octet-stream" }));
  return { sha256, name: file.name };
}
/** The address of a file or picture that a message brought along. */
export const fileOf = (id: string, message: number, path: string) => `${of(id)}/messages/${message}/files?${new URLSearchParams({ path })}`;
export const madeChanges = (id: string, message: number) => get<{ lines: ShownLine[] }>(`${of(id)}/messages/${message}/changes`);
export interface FoundMessage { session: string; title: string; number: number; role: string; excerpt: string; created_ms: number }
export const searchMessages = (query: string) => get<FoundMessage[]>(`v1/sessions/search?${new URLSearchParams({ query })}`);
export const archivedSessions = () => part<SessionInfo[]>("v1/sessions?archived=1&limit=200");
/** With `middlewares`, the new session has these in place of those of this one. */
export const fork = (id: string, step: number, key: string, middlewares?: string) => post<SessionInfo>(`${of(id)}/fork`, { step, middlewares }, { "Idempotency-Key": key });
export const archive = (id: string) => post<SessionInfo>(`${of(id)}/archive`);
export const restore = (id: string) => post<SessionInfo>(`${of(id)}/restore`);
export const exported = (id: string, format: "json" | "markdown") => `${of(id)}/export?format=${format}`;
export const rollback = (id: string, to: number) => post<Json>(`${of(id)}/rollback`, { to, before: true });
export const cancel = (run: string) => post<RunInfo>(`v1/runs/${encodeURIComponent(run)}/cancel`);
export const approvals = () => get<Approval[]>("v1/approvals");
export const approval = (id: string) => getExactly<Approval>(`v1/approvals/${encodeURIComponent(id)}`);
export const decide = (id: string, body: Json | string) => post<Json>(`v1/approvals/${encodeURIComponent(id)}`, body);
export const login = (token: string) => post<void>("login", { token });
export const logout = () => post<void>("logout");
