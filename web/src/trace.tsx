// Where a session's time went: a waterfall for each run.

import { useEffect, useState } from "preact/hooks";
import { get } from "./api";
import { type Key, money, seconds, short, t, when, word } from "./i18n";
import { addressOf } from "./place";
import type { SubTurn } from "./transcript";

export interface Span {
  kind: "run" | "model_call" | "compaction" | "tool_call" | "approval"; name: string; start_ms: number; end_ms: number | null;
  session: string; run: string; state: string; details: Record<string, any>; spans: Span[];
}

const KINDS: Record<Span["kind"], Key> = {
  run: "Sub-agent", model_call: "Model", compaction: "compaction", tool_call: "Tool", approval: "Decision",
};

export const trace = (session: string) => get<Span[]>(`v1/sessions/${encodeURIComponent(session)}/trace`);

/** The sessions of the sub-agents that worked for a call, in order: providers may use a call's id again. */
export async function subAgentsOf(session: string, callId: string): Promise<SubTurn[]> {
  const calls = (await trace(session)).flatMap((each) => each.spans).filter((each) => each.kind === "tool_call" && each.details.call_id === callId);
  return calls.flatMap((each) => each.spans).filter((each) => each.kind === "run").map((run) => ({ agent: run.name, session: run.session, live: null }));
}

export function TraceView({ session, version }: { session: string; version: number }) {
  const [runs, setRuns] = useState<Span[] | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    trace(session).then(setRuns, (error) => setProblem(String(error.message ?? error)));
  }, [session, version]);
  if (problem) return <p class="banner problem" role="alert">{problem}</p>;
  if (!runs) return null;
  if (!runs.length) return <p class="empty">{t("Nothing to show yet: the first model call makes the first step.")}</p>;
  return (
    <div class="context" tabIndex={0} role="region" aria-label={t("Trace")}>
      <div class="wide">{[...runs].reverse().map((run) => <Run key={run.run} run={run} session={session} />)}</div>
    </div>
  );
}

function endOf(span: Span): number {
  return Math.max(span.end_ms ?? span.start_ms, ...span.spans.map(endOf));
}

function rowsOf(spans: Span[], depth: number): [Span, number][] {
  return spans.flatMap((each): [Span, number][] => [[each, depth], ...rowsOf(each.spans, depth + 1)]);
}

function Run({ run, session }: { run: Span; session: string }) {
  const start = run.start_ms;
  const length = Math.max(1, endOf(run) - start);
  return (
    <section class="card" aria-label={run.run}>
      <div class="line">
        <h2>{when(start)} <span class="meta">{run.run}</span></h2>
        <span class="meta">{word(run.state)} · {seconds(length / 1000)}{run.details.cost_usd !== undefined && ` · ${money(run.details.cost_usd)}`}</span>
      </div>
      <ol class="spans">
        {rowsOf(run.spans, 0).map(([span, depth], at) => {
          const took = endOf(span) - span.start_ms;
          const left = Math.min(99.5, (100 * Math.max(0, span.start_ms - start)) / length);
          const step = span.session === session ? span.details.step : undefined;
          return (
            <li key={at}>
              <span class="span-name" style={{ paddingLeft: `${depth * 14}px` }}>
                <span class="meta">{t(KINDS[span.kind])}</span>{" "}
                {span.kind === "run" ? <a href={addressOf({ session: span.session })}>{span.name}</a> : step === undefined ? span.name : <a href={addressOf({ session, view: "context", step })}>{span.name}</a>}
              </span>
              <span class="track"><span class={`span of-${span.kind}`} style={{ left: `${left}%`, width: `${Math.min(100 - left, Math.max(0.5, (100 * took) / length))}%` }} /></span>
              <span class="took">{seconds(took / 1000)}</span>
              <span class="meta figures-of">{[word(span.state), span.details.prompt_tokens !== undefined && `${short(span.details.prompt_tokens)} → ${short(span.details.completion_tokens)}`, span.details.cost_usd !== undefined && money(span.details.cost_usd)].filter(Boolean).join(" · ")}</span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
