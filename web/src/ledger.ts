// What the service tells about a session's context.

import { get, post } from "./api";

export interface Decision {
  policy: string; kind: string; admitted: boolean; reason: string; count: number; seqs: number[];
  tokens_before: number; tokens_after: number;
}
export interface Usage { input_tokens: number; output_tokens: number; cache_read_tokens: number; cache_write_tokens: number }
export interface StepInfo {
  number: number; run: string; cursor: number; model: string; cause: string; input_limit_tokens: number; fixed_tokens: number;
  by_source: Record<string, number>; sent_tokens: number; decisions: Decision[]; usage: Usage | null; cost_usd: number | null;
  policy_cost_usd: number | null; duration_ms: number; error: string; aside: boolean;
}
export interface Forecast {
  until: "compaction" | "window"; limit_tokens: number; now_tokens: number; growth_tokens: number; steps: number | null;
  cost_p50_usd: number | null; cost_p90_usd: number | null;
}
export interface Totals {
  steps: number; input_tokens: number; output_tokens: number; cache_read_tokens: number; cache_write_tokens: number;
  cost_usd: number | null; policy_tokens: number; policy_cost_usd: number | null;
}
export interface Ledger { session: string; steps: StepInfo[]; totals: Totals; forecast: Forecast | null; problems: string[] }
export interface SentPart { part: string; name: string; source?: string; role?: string; tokens: number; text: string; characters: number }
export interface StepDetail { session: string; step: StepInfo; sent: SentPart[] }
export interface Fate { number: number; step: number | null; policy: string; kind: string; reason: string; handle: string }
export interface Item {
  item: string; what: string; source: string; tokens: number; original_tokens: number; status: string; fates: Fate[];
  first_step: number | null; excerpt: string; text?: string;
}
export interface Found { what: string; name: string; source: string; status: string; excerpt: string; fate: Fate | null; note: string }

export interface Outcome {
  steps: number; sent_tokens: number; read_tokens: number; cost_usd: number | null; summaries: number; compactions: number;
  overflows: number; needles_kept: number; needles_needed: number; largest_tokens: number; failure: string;
}
export interface Recomputed {
  outcome: Outcome;
  steps: { sources: Record<string, number>; input_tokens: number; cost_usd: number | null; compactions: string[] }[];
}

const of = (session: string): string => `v1/sessions/${encodeURIComponent(session)}/context`;

export const ledger = (session: string) => get<Ledger>(`${of(session)}/steps`);
export const detail = (session: string, step: number) => get<StepDetail>(`${of(session)}?step=${step}`);
export const explained = (session: string, item: string, step: number) =>
  get<{ item: Item }>(`${of(session)}/why?step=${step}&item=${encodeURIComponent(item)}`).then((answer) => answer.item);
const whatIfOf = (session: string): string => `v1/sessions/${encodeURIComponent(session)}/what-if`;
export const presentPolicies = (session: string) => get<{ middlewares: string; own: boolean }>(whatIfOf(session));
export const whatIf = (session: string, middlewares: string, needles: string[]) =>
  post<{ present: Recomputed; other: Recomputed }>(whatIfOf(session), { middlewares, needles });
export const searched = (session: string, text: string, step: number) =>
  get<{ found: Found[] }>(`${of(session)}/why?step=${step}&text=${encodeURIComponent(text)}`).then((answer) => answer.found);
