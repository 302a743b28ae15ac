// Calls that wait for a decision: exactly what would run, and the change that it would make.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { Choice, Exact, runsFromRight, withoutRight } from "./exact";
import { exactMoment, left, number, t } from "./i18n";
import { isSame, numberOf, WrittenNumber } from "./json";
import { useMoves, useStill } from "./reading";
import { inLine } from "./visible";

export function Approvals({ ids, reload }: { ids: string[]; reload: () => Promise<void> }) {
  const [found, setFound] = useState<api.Approval[]>([]);
  const wanted = ids.join(" ");
  useEffect(() => {
    let isOld = false;
    // A call that is shown stays as it is shown. If it would make another change by now, its approval is refused, and not about that change.
    const missing = ids.filter((id) => !found.some((each) => each.id === id));
    void Promise.all(missing.map((id) => api.approval(id).catch(() => null))).then((each) => {
      if (!isOld) setFound((all) => [...all, ...each.filter((one) => one !== null)]);
    });
    return () => { isOld = true; };
  }, [wanted]);
  const shown = useMemo(() => ids.flatMap((id) => found.find((each) => each.id === id) ?? []), [found, wanted]);
  // When a call comes or goes, others move: the next press at that place is not about the one that is there now.
  const isStill = useStill(shown);
  return (
    <>
      {shown.map((each) => (
        <ApprovalCard
          key={each.id} approval={each} hasMoved={!isStill}
          decided={() => { setFound((all) => all.filter((one) => one.id !== each.id)); void reload(); }}
          lookAgain={async () => { const now = await api.approval(each.id); setFound((all) => all.map((one) => (one.id === now.id ? now : one))); }}
        />
      ))}
    </>
  );
}

const STYLES = { plain: "", red: "gone", green: "added", yellow: "cut", dim: "skip", bold: "file" } as const;

/** Lines as the service made them: what a browser would hide, reorder or join is in them as an escape. */
export function Shown({ lines }: { lines: api.ShownLine[] }) {
  return (
    <pre class="exact shown" tabIndex={0}>
      {lines.map((line) => <span class={STYLES[line.style]}>{line.moment ? <Deadline text={line.text} moment={line.moment} /> : <Exact text={line.text} />}{"\n"}</span>)}
    </pre>
  );
}

/** A line with a moment, which the service wrote in its own zone: here in that of the person, with the time that is left. */
function Deadline({ text, moment }: { text: string; moment: { text: string; at_ms: number } }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const at = text.indexOf(moment.text);
  // A browser's words for a time have blanks that would be drawn as escapes.
  return <><Exact text={text.slice(0, at)} />{exactMoment(moment.at_ms)} ({left(moment.at_ms - now)})<Exact text={text.slice(at + moment.text.length)} /></>;
}

/** The lines of a call in a box that scrolls. Below it is told how many are out of sight: on a phone no bar tells that it scrolls. */
function Boxed({ lines, whole, showWhole }: { lines: api.ShownLine[]; whole: boolean; showWhole: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [below, setBelow] = useState(0);
  const look = () => {
    const end = box.current!.getBoundingClientRect().bottom;
    setBelow([...box.current!.querySelectorAll(".shown > span")].filter((line) => line.getBoundingClientRect().bottom > end + 1).length);
  };
  useLayoutEffect(() => {
    const watch = new ResizeObserver(look);
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(look, [lines]);
  return (
    <>
      <div ref={box} class={whole ? "exactly" : "exactly boxed"} onScroll={look}><Shown lines={lines} /></div>
      {!whole && (
        <div class="rest">
          <button class="link" onClick={showWhole}>{t("show all")}</button>
          {below > 0 && <span class="below">{t(below === 1 ? "1 more line below" : "{n} more lines below", { n: number(below) })}</span>}
        </div>
      )}
    </>
  );
}

/** The room in pixels that a control needs beside its text: its padding, and an arrow. */
const BESIDE = 48;
const pen = document.createElement("canvas").getContext("2d")!;

/** All of the text of a control with one line, below it, if the line may be too short: a browser cuts it there without its size. */
function Whole({ control, text }: { control: RefObject<HTMLElement | null>; text: string }) {
  const [isCut, setCut] = useState(false);
  useLayoutEffect(() => {
    const look = () => {
      const { fontSize, fontFamily } = getComputedStyle(control.current!);
      pen.font = `${fontSize} ${fontFamily}`;
      setCut(pen.measureText(text).width > control.current!.clientWidth - BESIDE);
    };
    look();
    const watch = new ResizeObserver(look);
    watch.observe(control.current!);
    return () => watch.disconnect();
  }, [text]);
  // A screen reader reads all of the control, and this would become a part of its name.
  return isCut ? <span class="exact" aria-hidden="true"><Exact text={text} /></span> : null;
}

function ApprovalCard({ approval, hasMoved, decided, lookAgain }: {
  approval: api.Approval; hasMoved: boolean; decided: () => void; lookAgain: () => Promise<void>;
}) {
  const isQuestion = approval.answer_schema !== undefined;
  const [reason, setReason] = useState("");
  const [edited, setEdited] = useState<string | null>(null);
  const [always, setAlways] = useState(false);
  const [problem, setProblem] = useState("");
  const [isSent, setSent] = useState(false);
  const [isWhole, setWhole] = useState(false);
  const instruction = useRef<HTMLInputElement>(null);
  const card = useRef<HTMLElement>(null);
  const isStill = useStill(isWhole, edited === null, useMoves(card));
  const isBusy = isSent || hasMoved || !isStill;
  const decide = async (body: api.Json, written?: string) => {
    setSent(true);
    try {
      const sent = JSON.stringify({ ...body, seen: approval.seen ?? null });
      // The text itself: as values of JavaScript, large numbers would become others.
      await api.decide(approval.id, written === undefined ? sent : `${sent.slice(0, -1)},"changed":${written}}`);
      decided();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      // It may make another change by now, or be decided.
      await lookAgain().catch(() => undefined);
      setSent(false);
    }
  };
  const approve = () => {
    if (edited !== null) {
      try {
        const changed = JSON.parse(edited);
        if (typeof changed !== "object" || changed === null || Array.isArray(changed)) throw new Error();
      } catch {
        setProblem(t("The arguments are not a JSON object"));
        return;
      }
    }
    void decide({ decision: "approve", always, instruction: reason }, edited ?? undefined);
  };
  const lines = (isWhole ? approval.whole : approval.lines) ?? [];
  return (
    <section ref={card} class="approval" aria-label={isQuestion ? t("The agent asks") : t("Approve this call?")}>
      <h2>{isQuestion ? t("The agent asks") : t("Approve this call?")} <code>{approval.tool_name}</code></h2>
      <Boxed lines={lines} whole={isWhole} showWhole={() => setWhole(true)} />
      {edited !== null && <textarea class="edit" rows={Math.min(16, edited.split("\n").length + 1)} value={edited} aria-label={t("Arguments")} onInput={(event) => setEdited(event.currentTarget.value)} />}
      {isQuestion ? (
        <Form schema={approval.answer_schema!} texts={approval.form ?? []} isBusy={isBusy} answer={(changed) => void decide({ decision: "approve", changed })} decline={() => void decide({ decision: "reject" })} />
      ) : (
        <>
          <div class="actions">
            <button class="primary" disabled={isBusy} onClick={approve}>{t("Approve")}</button>
            <button class="danger" disabled={isBusy} onClick={() => void decide({ decision: "reject", reason })}>{t("Reject")}</button>
            <input ref={instruction} class="reason" value={reason} placeholder={t("Reason or instruction for the model (optional)")} aria-label={t("Reason or instruction for the model (optional)")} onInput={(event) => setReason(event.currentTarget.value)} />
            <button class="link" onClick={() => setEdited(edited === null ? approval.editable ?? "" : null)}>
              {edited === null ? t("Edit arguments") : t("Keep the arguments")}
            </button>
            {approval.may_remember && (
              <label class="inline"><input type="checkbox" checked={always} onChange={(event) => setAlways(event.currentTarget.checked)} />{t("Do not ask about this tool again")}</label>
            )}
          </div>
          <Whole control={instruction} text={reason} />
        </>
      )}
      {problem && <p class="problem" role="alert">{problem}</p>}
    </section>
  );
}

/** A question's form, from its JSON Schema. The service checks the answer. */
function Form(props: { schema: api.Json; texts: api.FormField[]; isBusy: boolean; answer: (value: api.Json) => void; decline: () => void }) {
  // In a JSON Schema, `true` is a schema too: one that says nothing.
  const fields = Object.entries((props.schema.properties ?? {}) as Record<string, unknown>).map(([name, about]) => [name, isObject(about) ? about : {}] as const);
  const texts = new Map(props.texts.map((each) => [each.name, each]));
  const textsOf = (name: string): api.FormField => texts.get(name) ?? { name, title: name, choices: [] };
  const required = new Set<string>(props.schema.required ?? []);
  const [values, setValues] = useState<api.Json>(() =>
    Object.fromEntries(fields.filter(([name, about]) => isShown(about, about.default, textsOf(name).default)).map(([name, about]) => [name, about.default])));
  // Every object has a `constructor` and a `toString`, which are no values of fields of these names.
  const valueOf = (name: string) => (Object.hasOwn(values, name) ? values[name] : undefined);
  const set = (name: string, value: unknown) =>
    setValues(({ [name]: _, ...rest }) => (value === "" || value === undefined ? rest : { ...rest, [name]: value }));
  return (
    <form class="form" onSubmit={(event) => { event.preventDefault(); props.answer(values); }}>
      {fields.map(([name, about]) => (
        <label key={name} class={isBox(about) ? "inline" : ""}>
          {isBox(about) && <input type="checkbox" checked={!!valueOf(name)} onChange={(event) => set(name, event.currentTarget.checked)} />}
          <span><Exact text={textsOf(name).title} />{required.has(name) && <abbr title={t("Required")}> *</abbr>}</span>
          {textsOf(name).about && <span class="meta"><Exact text={textsOf(name).about!} /></span>}
          {!isBox(about) && <Field about={about} texts={textsOf(name)} value={valueOf(name)} isRequired={required.has(name) && about.default === undefined} set={(value) => set(name, value)} />}
        </label>
      ))}
      <div class="actions">
        <button class="primary" disabled={props.isBusy}>{t("Answer")}</button>
        <button type="button" disabled={props.isBusy} onClick={props.decline}>{t("Decline")}</button>
      </div>
    </form>
  );
}

const isObject = (value: unknown): value is api.Json => typeof value === "object" && value !== null;

/** Whether a box to tick is the field's control: it has two states, and a default of another type would be a third. */
const isBox = (about: api.Json): boolean => about.type === "boolean" && ["boolean", "undefined"].includes(typeof about.default);

/** Whether the field's control shows this default as it is. If not, the field is empty and tells the default in another form. */
function isShown(about: api.Json, value: unknown, text?: string): boolean {
  if (isBox(about)) return typeof value === "boolean";
  const known = choices(about);
  if (known) return known.some((each) => isSame(each, value));
  const many = about.type === "array" ? choices(about.items ?? {}) : null;
  if (many) return Array.isArray(value) && value.every((one) => many.some((each) => isSame(each, one)));
  const isNumber = about.type === "number" || about.type === "integer";
  const fits = isNumber ? typeof value === "number" || value instanceof WrittenNumber : typeof value === "string" && text === JSON.stringify(value) && !runsFromRight(value);
  return fits && isKept(inputType(about), String(value));
}

/** The type of the field's input. One of dates shows no placeholder, which would tell the default. */
function inputType(about: api.Json): "number" | "text" {
  if (about.type === "number" || about.type === "integer") return "number";
  const formats = { email: "email", uri: "url", ...(about.default === undefined ? { date: "date" } : {}) };
  return ((Object.hasOwn(formats, about.format) && formats[about.format as keyof typeof formats]) || "text") as "text";
}

/** Whether an input of this type shows the text as it is: a browser empties some and takes blanks from others. */
function isKept(type: string, text: string): boolean {
  const input = document.createElement("input");
  input.type = type;
  input.value = text;
  return input.value === text && text.trim() === text;
}

/** The values of a field's choices, in the order of their texts. */
function choices(about: api.Json): unknown[] | null {
  if (Array.isArray(about.enum)) return about.enum;
  const named = about.oneOf ?? about.anyOf;
  if (Array.isArray(named) && named.every((each) => isObject(each) && "const" in each)) return named.map((each) => each.const);
  if (about.type === "boolean" && !isBox(about)) return [true, false];
  return null;
}

function Field({ about, texts, value, isRequired, set }: { about: api.Json; texts: api.FormField; value: unknown; isRequired: boolean; set: (value: unknown) => void }) {
  const known = choices(about);
  const select = useRef<HTMLSelectElement>(null), input = useRef<HTMLInputElement>(null);
  // What the service takes for an empty field.
  const otherwise = inLine(texts.default ?? "");
  if (known) {
    const at = known.findIndex((each) => isSame(each, value));
    return (
      <>
        <select ref={select} required={isRequired} value={at < 0 ? "" : String(at)} onChange={(event) => set(event.currentTarget.value === "" ? undefined : known[Number(event.currentTarget.value)])}>
          <Choice value="" text={otherwise} />
          {known.map((_, index) => <Choice value={String(index)} text={texts.choices[index] ?? ""} />)}
        </select>
        <Whole control={select} text={at < 0 ? otherwise : texts.choices[at] ?? ""} />
      </>
    );
  }
  const many = about.type === "array" ? choices(about.items ?? {}) : null;
  if (many) {
    const chosen = (Array.isArray(value) ? value : []) as unknown[];
    return (
      <span class="choices">
        {many.map((each, index) => (
          <label class="inline">
            <input type="checkbox" checked={chosen.some((one) => isSame(one, each))} onChange={(event) => set(event.currentTarget.checked ? [...chosen, each] : chosen.filter((one) => !isSame(one, each)))} />
            <span><Exact text={texts.choices[index] ?? ""} /></span>
          </label>
        ))}
      </span>
    );
  }
  const type = inputType(about);
  const written = value === undefined ? "" : String(value);
  return (
    <>
      {type === "number" ? (
        <input
          ref={input} type={type} required={isRequired} placeholder={otherwise} step={about.type === "integer" ? 1 : "any"} min={about.minimum} max={about.maximum}
          value={written} onInput={(event) => set(event.currentTarget.value === "" ? undefined : numberOf(event.currentTarget.value))}
        />
      ) : (
        <input
          ref={input} type={type} required={isRequired} placeholder={withoutRight(otherwise)} minLength={about.minLength} maxLength={about.maxLength}
          value={written} onInput={(event) => set(event.currentTarget.value)}
        />
      )}
      <Whole control={input} text={written || otherwise} />
    </>
  );
}
