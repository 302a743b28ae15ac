// The steps of a session: figures, the chart with its legend and table, and one step's facts. The page has them, and so does
// the file that `zeus context --plot` writes, so nothing here asks the service.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Chart, FIXED, isCompacted, MEASURES, type Measure, OTHERS, type Stack, stacksOf } from "./chart";
import { type Key, money, number, seconds, short, t, word } from "./i18n";
import { Icon } from "./icons";
import type { Ledger, StepInfo } from "./ledger";

/** The steps that have a column: a compaction that the user asked for sends nothing. */
export const columnsOf = (ledger: Ledger | null): StepInfo[] => (ledger?.steps ?? []).filter((each) => each.cause !== "compact");

/** ← and → choose the previous and the next step. */
export function useStepKeys(steps: StepInfo[], at: number, choose: (step: number) => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.target as HTMLElement).matches("input, textarea, select") || event.altKey || event.ctrlKey || event.metaKey) return;
      const next = steps[at + (event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : NaN)];
      if (next) { event.preventDefault(); choose(next.number); }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });
}

export function Figures({ ledger, last }: { ledger: Ledger; last: StepInfo }) {
  const { totals, forecast } = ledger;
  const share = last.input_limit_tokens ? last.sent_tokens / last.input_limit_tokens : 0;
  const cost = totals.cost_usd === null ? null : totals.cost_usd + (totals.policy_cost_usd ?? 0);
  return (
    <dl class="figures">
      <div>
        <dt>{t("Sent")}</dt>
        <dd>{short(last.sent_tokens)}{last.input_limit_tokens > 0 && <span class="meta"> / {short(last.input_limit_tokens)}</span>}</dd>
        <dd><meter value={Math.min(1, share)} high={0.85} max={1} aria-label={t("Sent")} /></dd>
      </div>
      <div>
        <dt>{t("Runway")}</dt>
        <dd>{forecast?.steps ?? "–"}</dd>
        <dd class="meta">{forecast?.steps == null ? t("not known yet") : t(forecast.until === "compaction" ? "{n} steps until the next compaction" : "{n} steps until the window is full", { n: forecast.steps })}</dd>
      </div>
      <div>
        <dt>{t("Session cost")}</dt>
        <dd>{money(cost)}</dd>
        <dd class="meta">{forecast?.cost_p50_usd != null ? t("P50 {a} · P90 {b} per step", { a: money(forecast.cost_p50_usd), b: money(forecast.cost_p90_usd) }) : t("not known yet")}</dd>
      </div>
      <div>
        <dt>{t("Cache read")}</dt>
        <dd>{totals.input_tokens ? `${Math.round((100 * totals.cache_read_tokens) / totals.input_tokens)} %` : "–"}</dd>
        <dd class="meta">{t("Cache written")} {short(totals.cache_write_tokens)}</dd>
      </div>
    </dl>
  );
}

const NAMES: Record<string, Key> = {
  [FIXED]: "prompt and tools", read: "Cache read", written: "Cache written", fresh: "Not cached", call: "Model calls", policies: "Policies' calls",
};
/** A source or another layer of the chart, for people. */
export const nameOf = (name: string): string => (name === OTHERS ? OTHERS : name in NAMES ? t(NAMES[name]) : word(name));
const TITLES: Record<Measure, Key> = { sources: "Tokens sent per step, by source", cache: "Cache per step", cost: "Cost per step" };
const TABS: Record<Measure, Key> = { sources: "Tokens", cache: "Cache", cost: "Cost" };

export function ChartCard(props: {
  steps: StepInfo[]; chosen: number; choose: (step: number, source: string | null) => void;
  /** The source whose parts are shown; without `pick`, the legend only names colours. */
  source?: string | null; pick?: (source: string | null) => void; least?: number;
}) {
  const { steps } = props;
  const [measure, setMeasure] = useState<Measure>("sources");
  const [hovered, setHovered] = useState<number | null>(null);
  const stacks = useMemo(() => stacksOf(steps, measure), [steps, measure]);
  const shown = (hovered === null ? undefined : steps[hovered]) ?? steps.find((each) => each.number === props.chosen)!;
  const told = measure === "cost" ? money((shown.cost_usd ?? 0) + (shown.policy_cost_usd ?? 0)) : t("{n} tokens", { n: number(shown.sent_tokens) });
  return (
    <section class="card" aria-label={t(TITLES[measure])}>
      <div class="line">
        <h2>{t(TITLES[measure])} <span class="meta">{t("Step {n}", { n: shown.number })} · {told}</span></h2>
        <span class="measures" role="group" aria-label={t("Chart")}>
          {MEASURES.map((each) => (
            <button key={each} class="quiet" aria-pressed={each === measure} onClick={() => setMeasure(each)}>{t(TABS[each])}</button>
          ))}
        </span>
      </div>
      <Chart
        steps={steps} stacks={stacks} measure={measure} title={t(TITLES[measure])} chosen={props.chosen} hover={setHovered} least={measure === "sources" ? props.least : undefined}
        choose={(step, stack) => props.choose(step, measure === "sources" ? stack : null)}
      />
      <Legend stacks={stacks} at={steps.indexOf(shown)} steps={steps} measure={measure} source={props.source ?? null} pick={measure === "sources" ? props.pick : undefined} />
      <details>
        <summary class="meta">{t("Table")}</summary>
        <StepTable steps={steps} stacks={stacks} measure={measure} />
      </details>
    </section>
  );
}

const amount = (measure: Measure, value: number, exact = false): string => (measure === "cost" ? money(value) : exact ? number(value) : short(value));

function Legend(props: { stacks: Stack[]; at: number; steps: StepInfo[]; measure: Measure; source: string | null; pick?: (source: string | null) => void }) {
  const { stacks, at, pick } = props;
  return (
    <ul class="legend">
      {stacks.map((each) => {
        const inside = <><span class="chip" style={{ background: `var(${each.color})` }} />{nameOf(each.name)} <span class="meta">{amount(props.measure, each.values[at] ?? 0)}</span></>;
        const isPicked = props.source === each.name;
        return (
          <li key={each.name} class={each.values[at] ? "" : "none"}>
            {pick ? <button class="quiet" aria-pressed={isPicked} onClick={() => pick(isPicked ? null : each.name)}>{inside}</button> : inside}
          </li>
        );
      })}
      {props.steps.some(isCompacted) && <li><span class="mark">▼</span>{t("compaction")}</li>}
    </ul>
  );
}

function StepTable({ steps, stacks, measure }: { steps: StepInfo[]; stacks: Stack[]; measure: Measure }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t("Table")}>
      <table>
        <thead><tr><th class="number">{t("Steps")}</th>{stacks.map((each) => <th class="number">{nameOf(each.name)}</th>)}<th class="number">{t("Sent")}</th><th class="number">{t("Cost")}</th></tr></thead>
        <tbody>
          {steps.map((step, at) => (
            <tr key={step.number}><td class="number">{step.number}{isCompacted(step) ? " ▼" : ""}</td>{stacks.map((each) => <td class="number">{amount(measure, each.values[at], true)}</td>)}<td class="number">{number(step.sent_tokens)}</td><td class="number">{money(step.cost_usd)}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** One step's facts and the policies' decisions before it. */
export function StepCard(props: {
  steps: StepInfo[]; at: number; choose: (step: number) => void; children?: ComponentChildren;
}) {
  const { steps, at } = props;
  const step = steps[at];
  const move = (by: number, label: Key, icon: "left" | "right") => (
    <button class="quiet" aria-label={t(label)} title={t(label)} disabled={!steps[at + by]} onClick={() => props.choose(steps[at + by].number)}><Icon name={icon} /></button>
  );
  return (
    <section class="card" aria-label={t("Step {n}", { n: step.number })}>
      <div class="line">
        <h2>{t("Step {n}", { n: step.number })} <span class="meta">{t("of {n}", { n: steps.length })}</span></h2>
        <span class="pair">{props.children}{move(-1, "Previous step", "left")}{move(1, "Next step", "right")}</span>
      </div>
      <dl class="facts">
        <dt>{t("Model")}</dt><dd>{step.model}</dd>
        <dt>{t("Sent")}</dt><dd>{step.input_limit_tokens ? t("{a} of {b} tokens", { a: number(step.sent_tokens), b: number(step.input_limit_tokens) }) : t("{n} tokens", { n: number(step.sent_tokens) })}</dd>
        {step.usage && <><dt>{t("Output")}</dt><dd>{t("{n} tokens", { n: number(step.usage.output_tokens) })}</dd></>}
        {step.usage && <><dt>{t("Cache read")}</dt><dd>{t("{n} tokens", { n: number(step.usage.cache_read_tokens) })}</dd></>}
        {step.usage && step.usage.cache_write_tokens > 0 && <><dt>{t("Cache written")}</dt><dd>{t("{n} tokens", { n: number(step.usage.cache_write_tokens) })}</dd></>}
        <dt>{t("Cost")}</dt><dd>{money(step.cost_usd)}{step.policy_cost_usd ? ` + ${money(step.policy_cost_usd)}` : ""}</dd>
        <dt>{t("Time")}</dt><dd>{seconds(step.duration_ms / 1000)}</dd>
        {step.error && <><dt>{t("error")}</dt><dd class="problem">{step.error}</dd></>}
      </dl>
      <h3>{t("What changed before this step")}</h3>
      {step.decisions.length ? (
        <ul class="decisions">
          {step.decisions.map((each) => (
            <li class={each.admitted ? "admitted" : "refused"}>
              <span class={`badge ${each.admitted ? "waiting" : ""}`}>{t(each.admitted ? "admitted" : "refused")}</span>
              <strong>{each.policy}</strong> <code>{each.kind}</code>
              {each.admitted && each.tokens_before !== each.tokens_after && <span class="meta"> {number(each.tokens_before)} → {t("{n} tokens", { n: number(each.tokens_after) })}</span>}
              <p class="meta">{each.reason}</p>
            </li>
          ))}
        </ul>
      ) : <p class="meta">{t("No policy changed anything.")}</p>}
    </section>
  );
}
