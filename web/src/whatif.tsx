// What the session would have sent under other policies, beside what the present ones make of it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Chart, stacksOf } from "./chart";
import { type Key, money, number, short, t } from "./i18n";
import { fork } from "./api";
import * as api from "./ledger";
import { go } from "./place";

export function WhatIf({ session, step }: { session: string; step: number }) {
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState<string | null>(null);
  const [isOwn, setOwn] = useState(false);
  const [needles, setNeedles] = useState("");
  const [found, setFound] = useState<{ present: api.Recomputed; other: api.Recomputed } | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const fail = (error: unknown) => setProblem(error instanceof Error ? error.message : String(error));
  useEffect(() => {
    if (isOpen && text === null) api.presentPolicies(session).then((found) => { setText(found.middlewares); setOwn(found.own); }, fail);
  }, [isOpen]);
  const recompute = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      setFound(await api.whatIf(session, text!, needles.split("\n").map((each) => each.trim()).filter(Boolean)));
    } catch (error) {
      fail(error);
    } finally {
      setBusy(false);
    }
  };
  const begin = async () => {
    setBusy(true);
    setProblem("");
    try {
      go({ session: (await fork(session, step, crypto.randomUUID(), text!)).session });
    } catch (error) {
      fail(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <details class="card whatif" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><h2>{t("What if?")}</h2> <span class="meta">{t("Recompute this session under other policies. No model is called.")}</span></summary>
      {isOwn && <p class="meta">{t("This session has its own policies, in place of those of the config.")}</p>}
      {text !== null && (
        <form onSubmit={recompute}>
          <label>middlewares<textarea class="edit" rows={Math.min(18, text.split("\n").length + 1)} value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} /></label>
          <label>{t("Texts that the last request should keep, one a line")}<textarea rows={2} value={needles} onInput={(event) => setNeedles(event.currentTarget.value)} /></label>
          <div class="actions"><button class="primary" disabled={isBusy}>{isBusy ? t("Recomputing…") : t("Recompute")}</button><button type="button" disabled={isBusy} title={t("Begin a session as this one was when this step was asked")} onClick={() => void begin()}>{t("Fork at step {n} with these policies", { n: step })}</button></div>
        </form>
      )}
      {problem && <pre class="exact problem" role="alert" tabIndex={0}>{problem}</pre>}
      {found && <Comparison present={found.present} other={found.other} />}
    </details>
  );
}

const ROWS: [Key, (each: api.Outcome) => string][] = [
  ["Steps", (each) => number(each.steps)],
  ["Sent", (each) => number(each.sent_tokens)],
  ["Largest request", (each) => number(each.largest_tokens)],
  ["Cache read", (each) => (each.sent_tokens ? `${Math.round((100 * each.read_tokens) / each.sent_tokens)} %` : "–")],
  ["Cost", (each) => money(each.cost_usd)],
  ["Compactions", (each) => number(each.compactions)],
  ["Summaries", (each) => number(each.summaries)],
  ["Refused as too large", (each) => number(each.overflows)],
  ["Needed texts kept", (each) => (each.needles_needed ? `${each.needles_kept} / ${each.needles_needed}` : "–")],
];

function Comparison({ present, other }: { present: api.Recomputed; other: api.Recomputed }) {
  const least = Math.max(1, ...[...present.steps, ...other.steps].map((each) => Object.values(each.sources).reduce((sum, tokens) => sum + tokens, 0)));
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={t("What if?")}>
        <table>
          <thead><tr><th><span class="sr">{t("Details")}</span></th><th class="number">{t("Present policies")}</th><th class="number">{t("Other policies")}</th></tr></thead>
          <tbody>
            {ROWS.map(([name, value]) => {
              const [before, after] = [value(present.outcome), value(other.outcome)];
              return <tr key={name}><th scope="row">{t(name)}</th><td class="number">{before}</td><td class={`number ${before === after ? "" : "differs"}`}>{after}</td></tr>;
            })}
          </tbody>
        </table>
      </div>
      {other.outcome.failure && <p class="problem">{other.outcome.failure}</p>}
      <div class="columns">
        <Column title={t("Present policies")} found={present} least={least} />
        <Column title={t("Other policies")} found={other} least={least} />
      </div>
    </>
  );
}

function Column({ title, found, least }: { title: string; found: api.Recomputed; least: number }) {
  const [step, setStep] = useState(found.steps.length);
  const steps = useMemo(() => found.steps.map(asStep), [found]);
  const stacks = useMemo(() => stacksOf(steps, "sources"), [steps]);
  const shown = steps[step - 1];
  return (
    <section aria-label={title}>
      <div class="line"><h3>{title}</h3>{shown && <span class="meta">{t("Step {n}", { n: step })} · {short(shown.sent_tokens)}{found.steps[step - 1].compactions.length > 0 && ` · ${found.steps[step - 1].compactions.join(", ")}`}</span>}</div>
      <Chart steps={steps} stacks={stacks} measure="sources" title={title} chosen={step} choose={setStep} hover={() => {}} least={least} />
    </section>
  );
}

function asStep(each: api.Recomputed["steps"][number], at: number): api.StepInfo {
  const { system = 0, tools = 0, ...sources } = each.sources;
  return {
    number: at + 1, run: "", cursor: 0, model: "", cause: "turn", input_limit_tokens: 0, fixed_tokens: system + tools, by_source: sources,
    sent_tokens: each.input_tokens, usage: null, cost_usd: each.cost_usd, policy_cost_usd: null, duration_ms: 0, error: "", aside: false,
    decisions: each.compactions.map((made) => ({ policy: made, kind: "", admitted: true, reason: "", count: 1, seqs: [], tokens_before: 0, tokens_after: 0 })),
  };
}
