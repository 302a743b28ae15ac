// The context over time: what each step sent, what policies removed, and why a message is not there any more.

import { useEffect, useMemo, useState } from "preact/hooks";
import { fork as forked } from "./api";
import { FIXED, OTHERS } from "./chart";
import { type Key, number, t, word } from "./i18n";
import { Icon } from "./icons";
import * as api from "./ledger";
import { ChartCard, columnsOf, Figures, nameOf, StepCard, useStepKeys } from "./overview";
import { addressOf, go, type Place } from "./place";
import { inLine } from "./visible";
import { WhatIf } from "./whatif";

const WHILE_RUNNING_MS = 2000;

export function ContextView({ session, place, version, isRunning }: { session: string; place: Place; version: number; isRunning: boolean }) {
  const [ledger, setLedger] = useState<api.Ledger | null>(null);
  const [problem, setProblem] = useState("");
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

  const steps = useMemo(() => columnsOf(ledger), [ledger]);
  const last = steps[steps.length - 1];
  const chosen = steps.find((each) => each.number === place.step) ?? last;
  const at = chosen ? steps.indexOf(chosen) : -1;
  const [source, pick] = useState<string | null>(null);
  const choose = (step: number, message = place.message) => go({ session, view: "context", step, message }, { replace: true });
  useStepKeys(steps, at, choose);
  const fork = () => forked(session, chosen!.number, crypto.randomUUID()).then((made) => go({ session: made.session }), (error) => setProblem(String(error.message ?? error)));

  if (problem) return <p class="banner problem" role="alert">{problem}</p>;
  if (!ledger) return null;
  if (!chosen || !last) return <p class="empty">{t("Nothing to show yet: the first model call makes the first step.")}</p>;
  return (
    <div class="context" tabIndex={0} role="region" aria-label={t("Context")}>
      <div class="wide">
        {ledger.problems.map((each) => <p class="banner problem" key={each}>{each}</p>)}
        <Figures ledger={ledger} last={last} />
        <ChartCard steps={steps} chosen={chosen.number} choose={(step, stack) => { choose(step); pick(stack); }} source={source} pick={pick} />
        <div class="columns">
          <StepCard steps={steps} at={at} choose={choose}>
            <button title={t("Begin a session as this one was when this step was asked")} onClick={() => void fork()}>{t("Fork here")}</button>
          </StepCard>
          <section class="card" aria-label={t("Why did it forget?")}>
            <Forgotten session={session} step={chosen} message={place.message ?? null} choose={choose} />
          </section>
          <Sent session={session} step={chosen} source={source} pick={pick} choose={(seq) => choose(chosen.number, seq)} />
        </div>
        <WhatIf session={session} step={chosen.number} />
      </div>
    </div>
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
              <Status status={each.status} /> <span class="meta">{word(each.what)} {each.name !== each.what && each.name}</span>
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
            <span><strong>{t("Message")} {item.item}</strong> <span class="meta">{word(item.source)}</span> <Status status={item.status} /></span>
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

/** The source of a part, as the chart names it. */
const sourceOf = (part: api.SentPart): string => part.source ?? (part.part === "message" ? "" : part.part === "summary" ? "summary" : FIXED);

function Sent(props: { session: string; step: api.StepInfo; source: string | null; pick: (source: string | null) => void; choose: (seq: number) => void }) {
  const { session, step, source } = props;
  const [detail, setDetail] = useState<api.StepDetail | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isOld = false;
    api.detail(session, step.number).then(
      (found) => { if (!isOld) { setDetail(found); setProblem(""); } },
      (error) => { if (!isOld) { setDetail(null); setProblem(String(error.message ?? error)); } });
    return () => { isOld = true; };
  }, [session, step.number]);
  const parts = detail?.sent ?? [];
  const shown = source === null || source === OTHERS ? parts : parts.filter((each) => sourceOf(each) === source);
  const total = parts.reduce((sum, each) => sum + each.tokens, 0) || 1;
  const largest = Math.max(1, ...parts.map((each) => each.tokens));
  return (
    <section class="card whole" aria-label={t("What was sent")}>
      <div class="line">
        <h2>{t("What was sent")}</h2>
        {source !== null && <button class="filter" onClick={() => props.pick(null)}>{nameOf(source)}<Icon name="close" /></button>}
      </div>
      {problem && <p class="problem">{problem}</p>}
      {detail && !shown.length && <p class="meta">{t("This step sent nothing of it.")}</p>}
      <div class="sent">
        {shown.map((each) => (
          <details key={`${each.part} ${each.name}`}>
            <summary>
              <span class="part">{each.part === "message" ? `#${each.name}` : each.name}</span>
              <span class="from meta">{word(each.source ?? each.part)}</span>
              <span class="gist">{inLine(each.text)}</span>
              <span class="amount"><span class="bar-of" style={{ width: `${Math.max(1, (100 * each.tokens) / largest)}%` }} /></span>
              <span class="tokens" title={`${((100 * each.tokens) / total).toFixed(1)} %`}>{number(each.tokens)}</span>
            </summary>
            <pre class="exact result" tabIndex={0}>{each.text}{each.characters > each.text.length ? `… (${number(each.characters)})` : ""}</pre>
            {each.part === "message" && (
              <p class="line-of">
                <a href={addressOf({ session, message: Number(each.name) })}>{t("Show in chat")}</a>
                <button class="link" onClick={() => props.choose(Number(each.name))}>{t("Why did it forget?")}</button>
              </p>
            )}
          </details>
        ))}
      </div>
    </section>
  );
}
