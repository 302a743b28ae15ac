// The context over time: what each step sent, what policies removed, and why a message is not there any more.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Chart, FIXED, isCompacted, OTHERS, type Stack, stacksOf } from "./chart";
import { type Key, money, number, seconds, short, t, word } from "./i18n";
import { Icon } from "./icons";
import * as api from "./ledger";
import { addressOf, go, type Place } from "./place";
import { WhatIf } from "./whatif";

const WHILE_RUNNING_MS = 2000;

export function ContextView({ session, place, version, isRunning }: { session: string; place: Place; version: number; isRunning: boolean }) {
  const [ledger, setLedger] = useState<api.Ledger | null>(null);
  const [problem, setProblem] = useState("");
  const [hovered, setHovered] = useState<number | null>(null);
  useEffect(() => {
    let isOld = false;
    const load = () =>
      api.ledger(session).then(
        (found) => { if (!isOld) { setLedger((now) => (now && JSON.stringify(now) === JSON.stringify(found) ? now : found)); setProblem(""); } },
        (error) => { if (!isOld) setProblem(String(error.message ?? error)); });
    void load();
    const timer = isRunning ? setInterval(() => { if (!document.hidden) void load(); }, WHILE_RUNNING_MS) : 0;
    return () => { isOld = true; clearInterval(timer); };
  }, [session, version, isRunning]);

  // A compaction that the user asked for sends nothing: it has no column of its own.
  const steps = useMemo(() => (ledger?.steps ?? []).filter((each) => each.cause !== "compact"), [ledger]);
  const stacks = useMemo(() => stacksOf(steps), [steps]);
  const last = steps[steps.length - 1];
  const chosen = steps.find((each) => each.number === place.step) ?? last;
  const at = chosen ? steps.indexOf(chosen) : -1;
  const choose = (step: number, message = place.message) => go({ session, view: "context", step, message }, { replace: true });

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.target as HTMLElement).matches("input, textarea, select") || event.altKey || event.ctrlKey || event.metaKey) return;
      const next = steps[at + (event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : NaN)];
      if (next) { event.preventDefault(); choose(next.number); }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });

  if (problem) return <p class="banner problem" role="alert">{problem}</p>;
  if (!ledger) return null;
  if (!chosen || !last) return <p class="empty">{t("Nothing to show yet: the first model call makes the first step.")}</p>;
  const shown = hovered === null ? chosen : (steps[hovered] ?? chosen);
  return (
    <div class="context" tabIndex={0} role="region" aria-label={t("Context")}>
      <div class="wide">
        {ledger.problems.map((each) => <p class="banner problem" key={each}>{each}</p>)}
        <Figures ledger={ledger} last={last} />
        <section class="card" aria-label={t("Tokens sent per step, by source")}>
          <div class="line">
            <h2>{t("Tokens sent per step, by source")}</h2>
            <span class="meta">{t("Step {n}", { n: shown.number })} · {t("{n} tokens", { n: number(shown.sent_tokens) })}</span>
          </div>
          <Chart steps={steps} stacks={stacks} chosen={chosen.number} choose={choose} hover={setHovered} />
          <Legend stacks={stacks} at={steps.indexOf(shown)} steps={steps} />
          <details>
            <summary class="meta">{t("Table")}</summary>
            <StepTable steps={steps} stacks={stacks} />
          </details>
        </section>
        <div class="columns">
          <StepPanel
            session={session} step={chosen} message={place.message ?? null} count={steps.length}
            previous={steps[at - 1]?.number ?? null} next={steps[at + 1]?.number ?? null} choose={choose} last={last.number}
          />
        </div>
        <WhatIf session={session} />
      </div>
    </div>
  );
}

function Figures({ ledger, last }: { ledger: api.Ledger; last: api.StepInfo }) {
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

const sourceName = (name: string): string => (name === FIXED ? t("prompt and tools") : name === OTHERS ? OTHERS : word(name));

function Legend({ stacks, at, steps }: { stacks: Stack[]; at: number; steps: api.StepInfo[] }) {
  return (
    <ul class="legend">
      {stacks.map((each) => (
        <li key={each.name} class={each.tokens[at] ? "" : "none"}>
          <span class="chip" style={{ background: `var(${each.color})` }} />{sourceName(each.name)} <span class="meta">{short(each.tokens[at] ?? 0)}</span>
        </li>
      ))}
      {steps.some(isCompacted) && <li><span class="mark">▼</span>{t("compaction")}</li>}
    </ul>
  );
}

function StepTable({ steps, stacks }: { steps: api.StepInfo[]; stacks: Stack[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t("Table")}>
      <table>
        <thead><tr><th class="number">{t("Steps")}</th>{stacks.map((each) => <th class="number">{sourceName(each.name)}</th>)}<th class="number">{t("Sent")}</th><th class="number">{t("Cost")}</th></tr></thead>
        <tbody>
          {steps.map((step, at) => (
            <tr key={step.number}><td class="number">{step.number}{isCompacted(step) ? " ▼" : ""}</td>{stacks.map((each) => <td class="number">{number(each.tokens[at])}</td>)}<td class="number">{number(step.sent_tokens)}</td><td class="number">{money(step.cost_usd)}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function StepPanel(props: {
  session: string; step: api.StepInfo; message: number | null; count: number; previous: number | null; next: number | null;
  choose: (step: number, message?: number | null) => void; last: number;
}) {
  const { session, step } = props;
  const [detail, setDetail] = useState<api.StepDetail | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isOld = false;
    api.detail(session, step.number).then(
      (found) => { if (!isOld) { setDetail(found); setProblem(""); } },
      (error) => { if (!isOld) { setDetail(null); setProblem(String(error.message ?? error)); } });
    return () => { isOld = true; };
  }, [session, step.number]);
  return (
    <>
      <section class="card" aria-label={t("Step {n}", { n: step.number })}>
        <div class="line">
          <h2>{t("Step {n}", { n: step.number })} <span class="meta">{t("of {n}", { n: props.count })}</span></h2>
          <span class="pair">
            <button class="quiet" aria-label={t("Previous step")} title={t("Previous step")} disabled={props.previous === null} onClick={() => props.choose(props.previous!)}><Icon name="left" /></button>
            <button class="quiet" aria-label={t("Next step")} title={t("Next step")} disabled={props.next === null} onClick={() => props.choose(props.next!)}><Icon name="right" /></button>
          </span>
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
      <section class="card" aria-label={t("Why did it forget?")}>
        <Forgotten {...props} />
      </section>
      <section class="card whole" aria-label={t("What was sent")}>
        <h2>{t("What was sent")}</h2>
        {problem && <p class="problem">{problem}</p>}
        {detail && <Sent session={session} detail={detail} choose={(seq) => props.choose(step.number, seq)} />}
      </section>
    </>
  );
}

const SEARCH_WAIT_MS = 250;

function Forgotten(props: { session: string; step: api.StepInfo; message: number | null; choose: (step: number, message?: number | null) => void }) {
  const { session, step, message } = props;
  const [text, setText] = useState("");
  const [found, setFound] = useState<api.Found[] | null>(null);
  const [item, setItem] = useState<api.Item | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (!text.trim()) { setFound(null); return; }
    let isOld = false;
    const timer = setTimeout(() => api.searched(session, text, step.number).then(
      (all) => { if (!isOld) setFound(all); }, (error) => { if (!isOld) setProblem(String(error.message ?? error)); }), SEARCH_WAIT_MS);
    return () => { isOld = true; clearTimeout(timer); };
  }, [session, text, step.number]);
  useEffect(() => {
    setItem(null);
    setProblem("");
    if (message === null) return;
    let isOld = false;
    api.explained(session, String(message), step.number).then(
      (one) => { if (!isOld) setItem(one); }, (error) => { if (!isOld) setProblem(String(error.message ?? error)); });
    return () => { isOld = true; };
  }, [session, message, step.number]);
  return (
    <>
      <h2>{t("Why did it forget?")}</h2>
      <input
        type="search" class="full" value={text} placeholder={t("Search what was sent or forgotten")} aria-label={t("Search what was sent or forgotten")}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {problem && <p class="problem" role="alert">{problem}</p>}
      {found && !found.length && <p class="meta">{t("Nobody said that in this session.")}</p>}
      {found && found.length > 0 && (
        <ul class="found">
          {found.map((each) => (
            <li>
              <Status status={each.status} /> <span class="meta">{each.what} {each.name !== each.what && each.name}</span>
              <p>{each.excerpt}</p>
              {each.fate && <Reason session={session} status={each.status} fate={each.fate} choose={props.choose} />}
              {each.note && <p class="meta">{each.note}</p>}
              {each.what === "message" && each.status !== "set aside" && <button class="link" onClick={() => { setText(""); props.choose(step.number, Number(each.name)); }}>{t("Details")}</button>}
            </li>
          ))}
        </ul>
      )}
      {item && !found && (
        <div class="item">
          <div class="line">
            <span><strong>{t("Message")} {item.item}</strong> <span class="meta">{item.source}</span> <Status status={item.status} /></span>
            <a href={addressOf({ session, message: Number(item.item) })}>{t("Show in chat")}</a>
          </div>
          <p class="meta">
            {t("Original size")}: {t("{n} tokens", { n: number(item.original_tokens) })}
            {item.first_step !== null && <> · {t("Step {n}", { n: item.first_step })} +</>}
          </p>
          {item.fates.length
            ? item.fates.map((fate) => <Reason key={fate.number} session={session} status={fate.kind === "summarize" || fate.kind === "drop_before" ? "left" : "replaced"} fate={fate} choose={props.choose} />)
            : <p>{item.status === "later" ? t("It came after this step.") : t("This step's request contains it, unchanged.")}</p>}
          <pre class="exact result" tabIndex={0}>{item.text ?? item.excerpt}</pre>
        </div>
      )}
    </>
  );
}

const STATUSES: Record<string, Key> = { shown: "shown", replaced: "replaced", left: "left", later: "later", "set aside": "set aside" };

function Status({ status }: { status: string }) {
  const look = status === "shown" ? "done" : status === "left" ? "error" : status === "replaced" ? "waiting" : "";
  return <span class={`badge ${look}`}>{status in STATUSES ? t(STATUSES[status]) : status}</span>;
}

function Reason({ status, fate, choose }: { session: string; status: string; fate: api.Fate; choose: (step: number, message?: number | null) => void }) {
  return (
    <div class="reason-of">
      {fate.step !== null && (
        <button class="link" onClick={() => choose(fate.step!)}>{t(status === "left" ? "Removed from step {n} on" : "Shortened from step {n} on", { n: fate.step })}</button>
      )}
      <p><strong>{fate.policy}</strong> <code>{fate.kind}</code> <span class="meta">{fate.reason}</span></p>
      {fate.handle && <p class="meta">{t("The original")}: <code>{fate.handle}</code></p>}
    </div>
  );
}

function Sent({ detail, choose }: { session: string; detail: api.StepDetail; choose: (seq: number) => void }) {
  const total = detail.sent.reduce((sum, each) => sum + each.tokens, 0) || 1;
  const largest = Math.max(1, ...detail.sent.map((each) => each.tokens));
  return (
    <div class="sent">
      {detail.sent.map((each) => (
        <details key={`${each.part} ${each.name}`}>
          <summary>
            <span class="part">{each.part === "message" ? `#${each.name}` : each.name}</span>
            <span class="from meta">{each.source ?? each.part}</span>
            <span class="gist">{each.text.slice(0, 200).replace(/\s+/g, " ")}</span>
            <span class="amount"><span class="bar-of" style={{ width: `${Math.max(1, (100 * each.tokens) / largest)}%` }} /></span>
            <span class="tokens" title={`${((100 * each.tokens) / total).toFixed(1)} %`}>{number(each.tokens)}</span>
          </summary>
          <pre class="exact result" tabIndex={0}>{each.text}{each.characters > each.text.length ? `… (${number(each.characters)})` : ""}</pre>
          {each.part === "message" && <button class="link" onClick={() => choose(Number(each.name))}>{t("Details")}</button>}
        </details>
      ))}
    </div>
  );
}
