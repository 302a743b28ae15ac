// Exactly what an agent runs, where each value was written, and a check of an edited config.

import { useEffect, useRef, useState } from "preact/hooks";
import { type AgentInfo, get, type Json, post } from "./api";
import { type Key, number, t, word } from "./i18n";
import { addressOf } from "./place";
import { messageOf, useRead, useSettled } from "./reading";
import { Problem, Segments } from "./room";
import { inLine } from "./visible";

interface Mark { source: string; line: number; column: number }
interface Component { name: string; options: Json; plugin: { name: string; version: string; source: string } }
interface Value { path: string; value: unknown; written: Mark[] }
interface SubAgent { description?: string; mode: string; model: Component; tools: string[]; middlewares: Component[]; values: Value[]; agents: Record<string, SubAgent> }
interface Plan {
  /** Whether the session has its own policies. */
  own?: boolean;
  agent: string; description: string | null; config: string; mode: string; digest: string; instructions: string | null; project_instructions: string[] | null;
  model: Component; fallbacks: Component[]; middlewares: Component[]; checkpointer: Component; memory: { backend: Component } | null;
  tools: { name: string; category: string; access: string; component: string; plugin: Component["plugin"] }[];
  agents: Record<string, SubAgent>;
  executes: { kind: string; name: string; digest: string; where: string; trusted: boolean }[];
  files: { folders: Record<string, string>; rules: { pattern: string; right: string; written: string }[]; protected: string[] };
  prompt: Record<string, string>; prompt_sources: Record<string, { path: string; home: string; plugin: string | null; written: string | null }>;
  values: Value[]; notices: { code: string; message: string }[];
}
interface Config { source: string; text: string; others: string[]; problem: string }
interface Diagnostic { code: string; severity: string; message: string; hint: string | null; path: (string | number)[]; file: string | null; line?: number; column?: number }
interface Checked { ok: boolean; exit_code: number; diagnostics: Diagnostic[] }

type Tab = "values" | "parts" | "prompt" | "edit";

/** The plan of an agent, or of one of its sessions. */
export function PlanView({ agent, session }: { agent: AgentInfo; session: string | null }) {
  const [tab, setTab] = useState<Tab>("values");
  const path = `v1/agents/${encodeURIComponent(agent.name)}`;
  const read = session ? `v1/sessions/${encodeURIComponent(session)}/plan` : `${path}/plan`;
  const { value: plan, problem } = useRead(() => get<Plan>(read), [read, agent.digest]);
  if (!plan) return <Problem>{problem}</Problem>;
  return (
    <>
      {session && (
        <p class="banner">
          {t(plan.own ? "This session has its own policies, in place of those of the config." : "This session has the policies of its config.")} <a href={addressOf({ session })}>{t("Back to the session")}</a>
        </p>
      )}
      <dl class="facts card">
        <dt>{t("Config")}</dt><dd><code>{plan.config}</code></dd>
        <dt>{t("Model")}</dt><dd>{[plan.model, ...plan.fallbacks].map((each) => String(each.options.model ?? each.options.name ?? each.name)).join(" → ")}</dd>
        <dt>{t("Mode")}</dt><dd>{plan.mode}</dd>
        {plan.instructions && <><dt>{t("Instructions")}</dt><dd><code>{plan.instructions}</code></dd></>}
        <dt>{t("Digest")}</dt><dd><code>{plan.digest.slice(0, 16)}</code></dd>
      </dl>
      {plan.notices.map((each) => <p class="banner" key={each.message}>{each.message}</p>)}
      <Segments label={t("Plan")} chosen={tab} choose={setTab} names={{ values: t("Values"), parts: t("Parts"), prompt: t("Prompt"), edit: t("Edit and check") }} />
      {tab === "values" && <section class="card" aria-label={t("Values")}><Values values={plan.values} label={t("Values")} /></section>}
      {tab === "parts" && <Parts plan={plan} />}
      {tab === "prompt" && <Prompt plan={plan} />}
      {/* The edited text stays while another part is shown. */}
      <div hidden={tab !== "edit"}><Editor path={path} digest={agent.digest} isShown={tab === "edit"} /></div>
    </>
  );
}

const place = (mark: Mark): string => (mark.source.startsWith("--set ") ? mark.source : `${mark.source}:${mark.line}:${mark.column}`);
const written = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

function Values({ values, label }: { values: Value[]; label: string }) {
  const [text, setText] = useState("");
  const [isWritten, setWritten] = useState(false);
  const wanted = text.trim().toLowerCase();
  const found = values.filter((each) =>
    (!isWritten || each.written.length) && [each.path, written(each.value), ...each.written.map(place)].some((one) => one.toLowerCase().includes(wanted)));
  return (
    <>
      <div class="filters">
        <input type="search" class="grow" value={text} placeholder={t("Filter by key, value or place")} aria-label={t("Filter by key, value or place")} onInput={(event) => setText(event.currentTarget.value)} />
        <label class="inline"><input type="checkbox" checked={isWritten} onChange={(event) => setWritten(event.currentTarget.checked)} />{t("Without defaults")}</label>
        <span class="meta">{number(found.length)} / {number(values.length)}</span>
      </div>
      <div class="scroll" tabIndex={0} role="group" aria-label={label}>
        <table class="values">
          <thead><tr><th>{t("Key")}</th><th>{t("Value")}</th><th>{t("Written at")}</th></tr></thead>
          <tbody>
            {found.map((each) => (
              <tr key={each.path}>
                <td><code>{each.path}</code></td>
                <td><code class="value">{written(each.value)}</code></td>
                <td>
                  {each.written.length ? each.written.map((mark, at) => <span class={at ? "overridden" : ""} title={at ? t("overridden") : undefined}>{place(mark)}</span>) : <span class="meta">{t("default")}</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

const origin = (plugin: Component["plugin"]): string => [plugin.name, plugin.version].filter(Boolean).join(" ");

function Middlewares({ used }: { used: Component[] }) {
  if (!used.length) return <p class="meta">{t("none")}</p>;
  return (
    <ol class="rows">
      {used.map((each, at) => (
        <li key={at}>
          <details>
            <summary><strong>{at + 1}. {each.name}</strong> <span class="meta">{origin(each.plugin)}</span></summary>
            <pre class="exact" tabIndex={0}>{JSON.stringify(each.options, null, 2)}</pre>
          </details>
        </li>
      ))}
    </ol>
  );
}

/** Each with its middlewares and every value, and the agents below it. */
function SubAgents({ agents }: { agents: Record<string, SubAgent> }) {
  return (
    <ul class="rows">
      {Object.entries(agents).map(([name, each]) => (
        <li key={name}>
          <details>
            <summary><strong>{name}</strong> {each.description ?? ""} <span class="meta">{each.mode} · {each.tools.join(", ")}</span></summary>
            <h3>{t("Middlewares")}</h3>
            <Middlewares used={each.middlewares} />
            <h3>{t("Values")}</h3>
            <Values values={each.values} label={`${t("Values")}: ${name}`} />
            {Object.keys(each.agents).length > 0 && <><h3>{t("Sub-agents")}</h3><SubAgents agents={each.agents} /></>}
          </details>
        </li>
      ))}
    </ul>
  );
}

function Parts({ plan }: { plan: Plan }) {
  return (
    <>
      <section class="card" aria-label={t("Middlewares")}>
        <h2>{t("Middlewares")} <span class="meta">{t("in their order: the first is the outermost")}</span></h2>
        <Middlewares used={plan.middlewares} />
      </section>
      <section class="card" aria-label={t("Tools")}>
        <h2>{t("Tools")} <span class="meta">{number(plan.tools.length)}</span></h2>
        <div class="scroll" tabIndex={0} role="group" aria-label={t("Tools")}>
          <table>
            <thead><tr><th>{t("Tool")}</th><th>{t("Category")}</th><th>{t("Access")}</th><th>{t("From")}</th></tr></thead>
            <tbody>{plan.tools.map((each) => <tr key={each.name}><td><code>{each.name}</code></td><td>{each.category}</td><td>{each.access}</td><td>{each.component} <span class="meta">{origin(each.plugin)}</span></td></tr>)}</tbody>
          </table>
        </div>
      </section>
      {Object.keys(plan.agents).length > 0 && (
        <section class="card" aria-label={t("Sub-agents")}>
          <h2>{t("Sub-agents")}</h2>
          <SubAgents agents={plan.agents} />
        </section>
      )}
      <section class="card" aria-label={t("Files")}>
        <h2>{t("Files")}</h2>
        <dl class="facts">{Object.entries(plan.files.folders).map(([prefix, host]) => [<dt key={prefix}><code>{prefix}</code></dt>, <dd key={`${prefix}=`}><code>{host}</code></dd>])}</dl>
        {plan.files.rules.length > 0 && (
          <div class="scroll" tabIndex={0} role="group" aria-label={t("Files")}>
            <table>
              <thead><tr><th>{t("Pattern")}</th><th>{t("Access")}</th><th>{t("Written at")}</th></tr></thead>
              <tbody>{plan.files.rules.map((each) => <tr key={each.pattern}><td><code>{each.pattern}</code></td><td>{each.right}</td><td>{each.written}</td></tr>)}</tbody>
            </table>
          </div>
        )}
      </section>
      {plan.executes.length > 0 && (
        <section class="card" aria-label={t("What it executes")}>
          <h2>{t("What it executes")}</h2>
          <ul class="rows">{plan.executes.map((each) => <li key={each.digest}><strong>{each.kind}</strong> {each.name} <span class={`badge ${each.trusted ? "done" : "error"}`}>{t(each.trusted ? "allowed" : "not allowed")}</span> <span class="meta">{each.where}</span></li>)}</ul>
        </section>
      )}
    </>
  );
}

function Prompt({ plan }: { plan: Plan }) {
  return (
    <section class="card" aria-label={t("Prompt")}>
      <p class="meta">{t("The parts of the prompt that are the same in every session.")}</p>
      <div class="sent">
        {Object.entries(plan.prompt).map(([name, text]) => {
          const source = plan.prompt_sources[name];
          return (
            <details key={name}>
              <summary class="section-of"><span class="part">{name}</span><span class="gist">{inLine(text)}</span><span class="meta">{source?.written ?? source?.path ?? ""}</span></summary>
              <pre class="exact result" tabIndex={0}>{text}</pre>
            </details>
          );
        })}
      </div>
    </section>
  );
}

const PAUSE_MS = 600;

function Editor({ path, digest, isShown }: { path: string; digest: string; isShown: boolean }) {
  const config = useRead(() => (isShown ? get<Config>(`${path}/config`) : Promise.resolve(null)), [path, digest, isShown]);
  const [text, setText] = useState<string | null>(null);
  const [found, setFound] = useState<{ text: string; checked: Checked } | null>(null);
  const [problem, setProblem] = useState("");
  const [isCopied, setCopied] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLPreElement>(null);
  useEffect(() => { if (config.value && text === null) setText(config.value.text); }, [config.value]);
  const settled = useSettled(text ?? "", PAUSE_MS);
  useEffect(() => {
    if (!isShown || !settled) return;
    let isOld = false;
    post<Checked>(`${path}/validate`, { text: settled }).then(
      (checked) => { if (!isOld) { setFound({ text: settled, checked }); setProblem(""); } }, (error) => { if (!isOld) setProblem(messageOf(error)); });
    return () => { isOld = true; };
  }, [path, settled, isShown]);
  if (text === null) return <Problem>{config.problem}</Problem>;
  const lines = text.split("\n");
  const goTo = (line: number, column: number) => {
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
    area.current!.focus();
    area.current!.setSelectionRange(start, start + lines[line - 1].length - column + 1);
    area.current!.scrollTop = Math.max(0, (line - 4) * (area.current!.scrollHeight / lines.length));
  };
  const isFresh = found?.text === text;
  const bad = new Set(isFresh ? found!.checked.diagnostics.filter((each) => each.file === config.value?.source).map((each) => each.line) : []);
  const verdict: Key = !isFresh ? "Checking…" : found!.checked.ok ? "This config is valid" : "This config is not valid";
  return (
    <section class="card" aria-label={t("Edit and check")}>
      <div class="line">
        <h2><code>{config.value?.source}</code> <span class={`badge ${!isFresh ? "" : found!.checked.ok ? "done" : "error"}`} role="status">{t(verdict)}</span></h2>
        <span class="actions">
          {config.value && text !== config.value.text && <button onClick={() => setText(config.value!.text)}>{t("As it is now")}</button>}
          <button onClick={() => void navigator.clipboard.writeText(text).then(() => { setCopied(true); setTimeout(() => setCopied(false), 1500); })}>{t(isCopied ? "Copied" : "Copy")}</button>
        </span>
      </div>
      <p class="meta">{t("Nothing is written: copy the text into the file. Known secrets are shown as placeholders.")}</p>
      {config.value?.problem && <p class="banner problem">{t("The file is not valid now, so its former content runs.")} {config.value.problem}</p>}
      <div class="editor">
        <pre class="gutter" ref={gutter} aria-hidden="true">{lines.map((_, at) => <span class={bad.has(at + 1) ? "bad" : ""}>{at + 1}{"\n"}</span>)}</pre>
        <textarea
          ref={area} value={text} rows={Math.min(28, lines.length + 1)} spellcheck={false} wrap="off" aria-label={t("Text of the config")}
          onInput={(event) => setText(event.currentTarget.value)} onScroll={(event) => { gutter.current!.scrollTop = event.currentTarget.scrollTop; }}
        />
      </div>
      <Problem>{problem}</Problem>
      <ul class="rows diagnostics">
        {found?.checked.diagnostics.map((each, at) => (
          <li key={at} class={each.severity}>
            <span class={`badge ${each.severity === "error" ? "error" : "waiting"}`}>{word(each.severity)}</span>{" "}
            {each.line !== undefined && (each.file === config.value?.source && each.line <= lines.length
              ? <button class="link" onClick={() => goTo(each.line!, each.column ?? 1)}>{each.file}:{each.line}:{each.column}</button>
              : <code>{each.file}:{each.line}:{each.column}</code>)}{" "}
            {each.message}
            {each.hint && <p class="meta">{each.hint}</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}
