// What an agent remembers of the user: memories with their history, those in quarantine, and the changes of models.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type AgentInfo, call, get, part, post, Problem as Refused, tagged } from "./api";
import { Dialog } from "./dialog";
import { Choice, Coded, Exact } from "./exact";
import { type Key, money, moment, number, t, when, word } from "./i18n";
import { Icon } from "./icons";
import { addressOf, go } from "./place";
import { messageOf, useRead, useSettled, useStill } from "./reading";
import { Problem, Segments } from "./room";
import { editable } from "./visible";

interface Memory {
  id: string; content: string; memory_type: string; scope: string; scope_id: string; created_by: string; source: string; source_id: string | null;
  confidence: number; created_at: string; updated_at: string; last_used_at: string | null; visibility: string; status: string; subject: string | null;
  valid_from: string | null; valid_until: string | null; superseded_by: string | null; trust: string; version: number; near: string[];
}
interface Found extends Memory { similarity: number; final_score: number }
interface Entry { version: number; action: string; by: string; at: string; content: string; valid_from: string | null; valid_until: string | null }
interface Batch {
  id: string; kind: string; session: string | null; state: string; model: string; input_tokens: number; output_tokens: number; cost_usd: number | null;
  created_at: string; outcomes: Record<string, number>;
}
interface Field { value: string | (string | Record<string, unknown>)[]; by: string; sources: string[] }
/** `choices`: the values that a field may have, where it has not any text. */
interface ProfileOf { fields: Record<string, Field>; choices: Record<string, string[]> }

const TYPES = ["fact", "preference", "skill", "habit", "event", "context", "constraint", "decision"];
const SCOPES = ["user", "project"];
const STATUSES = ["active", "archived", "superseded", "all"];
const PART = 50;
const WAIT_MS = 250;

type Tab = "memories" | "quarantine" | "changes" | "profile";

const addressAt = (agent: string, path: string, values: Record<string, string> = {}): string =>
  `v1/${path}?${new URLSearchParams({ agent, ...Object.fromEntries(Object.entries(values).filter(([, value]) => value)) })}`;

export function MemoryView({ agent, item }: { agent: AgentInfo; item: string | null }) {
  const [tab, setTab] = useState<Tab>("memories");
  const [isNew, setNew] = useState(false);
  const [changes, setChanges] = useState(0);
  const changed = () => setChanges(changes + 1);
  const quarantine = useRead(() => get<Memory[]>(addressAt(agent.name, "memories/quarantine")), [changes]);
  const count = quarantine.value?.length ?? 0;
  if (agent.memory === false) return <p class="empty"><Coded text={t("The agent has no memory: its config has no key `memory`.")} /></p>;
  return (
    <>
      <div class="line">
        <Segments
          label={t("Memory")} chosen={item ? "memories" : tab} choose={(each) => { setTab(each); go({ session: null, room: "memory", agent: agent.name }); }}
          names={{ memories: t("Memories"), quarantine: count ? `${t("Quarantine")} (${number(count)})` : t("Quarantine"), changes: t("Changes"), profile: t("Profile") }}
        />
        <button onClick={() => setNew(true)}><Icon name="plus" />{t("New memory")}</button>
      </div>
      {item ? <One key={item} agent={agent.name} id={item} changed={changed} />
        : tab === "memories" ? <Memories agent={agent.name} changes={changes} />
        : tab === "quarantine" ? <Quarantine agent={agent.name} found={quarantine.value} problem={quarantine.problem} changed={changed} />
        : tab === "changes" ? <Batches agent={agent.name} changed={changed} />
        : <Profiles agent={agent.name} changes={changes} />}
      {isNew && <NewMemory agent={agent.name} close={() => setNew(false)} saved={changed} />}
    </>
  );
}

function Memories({ agent, changes }: { agent: string; changes: number }) {
  const [text, setText] = useState("");
  const [filters, setFilters] = useState({ type: "", scope: "", status: "active" });
  const [isPast, setPast] = useState(false);
  const query = useSettled(text.trim(), WAIT_MS);
  const [found, setFound] = useState<{ memories: (Memory | Found)[]; hidden: number; next: string | null } | null>(null);
  const [problem, setProblem] = useState("");
  const read = async (path: string, before: Memory[]) => {
    const answer = await part<{ memories: Memory[]; hidden: unknown[] }>(path);
    return { memories: [...before, ...answer.value.memories], hidden: answer.value.hidden.length, next: answer.next };
  };
  useEffect(() => {
    let isOld = false;
    const { type, scope, status } = filters;
    const work = query
      ? get<Found[]>(addressAt(agent, "memories/search", { query, type, scope, k: "20", past: isPast ? "1" : "" })).then((memories) => ({ memories, hidden: 0, next: null }))
      : read(addressAt(agent, "memories", { type, scope, status, limit: String(PART) }), []);
    work.then((all) => { if (!isOld) { setFound(all); setProblem(""); } }, (error) => { if (!isOld) setProblem(messageOf(error)); });
    return () => { isOld = true; };
  }, [agent, query, filters, isPast, changes]);
  const more = () => read(found!.next!, found!.memories).then((all) => setFound({ ...all, hidden: found!.hidden }), (error) => setProblem(messageOf(error)));
  const filter = (name: keyof typeof filters, label: Key, values: string[], all: boolean) => (
    <select aria-label={t(label)} value={filters[name]} onChange={(event) => setFilters({ ...filters, [name]: event.currentTarget.value })}>
      {all && <option value="">{t(label)}</option>}
      {values.map((each) => <option key={each} value={each}>{word(each)}</option>)}
    </select>
  );
  return (
    <section class="card" aria-label={t("Memories")}>
      <div class="filters">
        <input type="search" class="grow" value={text} placeholder={t("Search as the agent does")} aria-label={t("Search as the agent does")} onInput={(event) => setText(event.currentTarget.value)} />
        {filter("type", "Type", TYPES, true)}
        {filter("scope", "Scope", SCOPES, true)}
        {query
          ? <label class="inline"><input type="checkbox" checked={isPast} onChange={(event) => setPast(event.currentTarget.checked)} />{t("What was true before")}</label>
          : filter("status", "State", STATUSES, false)}
      </div>
      <Problem>{problem}</Problem>
      {found && !found.memories.length && <p class="empty">{t(query ? "Nothing fits that." : "Nothing is remembered yet.")}</p>}
      <ul class="rows">
        {found?.memories.map((each) => (
          <li key={each.id}>
            <a href={addressOf({ session: null, room: "memory", agent, item: each.id })}>{each.content}</a>
            <Marks memory={each} />
          </li>
        ))}
      </ul>
      {found?.next && <button onClick={() => void more()}>{t("More")}</button>}
      {!!found?.hidden && <p class="meta">{t("{n} memories that other members keep for themselves", { n: number(found.hidden) })}</p>}
    </section>
  );
}

function Marks({ memory }: { memory: Memory | Found }) {
  return (
    <span class="meta marks">
      <span class="badge">{word(memory.memory_type)}</span>
      <span>{word(memory.scope)}</span>
      {memory.status !== "active" && <span class="badge waiting">{word(memory.status)}</span>}
      {memory.trust !== "trusted" && <span class="badge error">{word(memory.trust)}</span>}
      {memory.subject && <span>{memory.subject}</span>}
      {"similarity" in memory && <span title={t("Similarity")}>{Math.round(100 * memory.similarity)} %</span>}
      <span>{when(Date.parse(memory.updated_at))}</span>
    </span>
  );
}

function One({ agent, id, changed }: { agent: string; id: string; changed: () => void }) {
  const path = `memories/${encodeURIComponent(id)}`;
  const memory = useRead(() => tagged<Memory>(addressAt(agent, path)), [agent, id]);
  const history = useRead(() => get<Entry[]>(addressAt(agent, `${path}/history`)), [agent, id, memory.value]);
  const [edited, setEdited] = useState<string | null>(null);
  /** As it was when the question came. */
  const [deleting, setDeleting] = useState<Memory | null>(null);
  const [problem, setProblem] = useState("");
  const act = async (work: () => Promise<unknown>) => {
    try {
      await work();
      setProblem("");
      setEdited(null);
      memory.again();
      changed();
    } catch (error) {
      setProblem(messageOf(error));
      // What was written stays, and the next try is of what is there now.
      if (error instanceof Refused && error.status === 412) memory.again();
    }
  };
  const change = (values: object) => act(() => call("PATCH", addressAt(agent, path), values, { "If-Match": memory.value!.tag }));
  const remove = async () => {
    const { version } = deleting!;
    setDeleting(null);
    try {
      await call("DELETE", addressAt(agent, path, { version: String(version) }));
      changed();
      go({ session: null, room: "memory", agent });
    } catch (error) {
      setProblem(messageOf(error));
      memory.again();
    }
  };
  const shown = memory.value?.value;
  const back = <a href={addressOf({ session: null, room: "memory", agent })}><Icon name="left" />{t("Memories")}</a>;
  if (!shown) return <><p class="back">{back}</p><Problem>{memory.problem}</Problem></>;
  const of = (other: string) => <a href={addressOf({ session: null, room: "memory", agent, item: other })}>{other}</a>;
  return (
    <>
      <p class="back">{back}</p>
      <section class="card" aria-label={t("Details")}>
        <Problem>{problem}</Problem>
        {edited === null ? <p class="content"><Exact text={shown.content} /></p> : (
          <textarea class="edit" rows={4} value={edited} aria-label={t("Text")} onInput={(event) => setEdited(event.currentTarget.value)} />
        )}
        <div class="actions">
          {edited === null ? (
            <>
              <button onClick={() => setEdited(editable(shown.content))}>{t("Edit")}</button>
              {shown.status === "active" && <button onClick={() => void change({ status: "archived" })}>{t("Archive")}</button>}
              {shown.status === "archived" && <button onClick={() => void change({ status: "active" })}>{t("Restore")}</button>}
              {shown.trust === "quarantined" && <button onClick={() => void act(() => post(addressAt(agent, `${path}/release`, { version: String(shown.version) })))}>{t("Release")}</button>}
              <button class="danger" onClick={() => setDeleting(shown)}>{t("Delete")}</button>
            </>
          ) : (
            <>
              <button class="primary" disabled={!edited.trim()} onClick={() => void change({ content: edited })}>{t("Save")}</button>
              <button onClick={() => setEdited(null)}>{t("Cancel")}</button>
            </>
          )}
        </div>
        <dl class="facts">
          <dt>{t("Type")}</dt><dd>{word(shown.memory_type)}</dd>
          <dt>{t("Scope")}</dt><dd>{word(shown.scope)} <span class="meta">{shown.scope_id}</span></dd>
          <dt>{t("State")}</dt><dd>{word(shown.status)}{shown.superseded_by && <> → {of(shown.superseded_by)}</>}</dd>
          <dt>{t("Source")}</dt><dd>{word(shown.source)} <span class="meta">{shown.source_id ?? ""}</span></dd>
          <dt>{t("Trust")}</dt><dd>{word(shown.trust)}</dd>
          {shown.subject && <><dt>{t("Subject")}</dt><dd><Exact text={shown.subject} /></dd></>}
          <dt>{t("Confidence")}</dt><dd>{Math.round(100 * shown.confidence)} %</dd>
          {(shown.valid_from || shown.valid_until) && <><dt>{t("True")}</dt><dd>{span(shown.valid_from, shown.valid_until)}</dd></>}
          <dt>{t("Saved")}</dt><dd>{moment(shown.created_at)} <span class="meta">{shown.created_by}</span></dd>
          {shown.last_used_at && <><dt>{t("Last used")}</dt><dd>{moment(shown.last_used_at)}</dd></>}
          {shown.near.length > 0 && <><dt>{t("Near")}</dt><dd class="list">{shown.near.map((each) => <span key={each}>{of(each)}</span>)}</dd></>}
        </dl>
      </section>
      <section class="card" aria-label={t("History")}>
        <h2>{t("History")}</h2>
        <Problem>{history.problem}</Problem>
        <ol class="history">
          {history.value?.map((each, at) => (
            <li key={at}>
              <span class="badge">{word(each.action)}</span> <span class="meta">{moment(each.at)} · {each.by} · {t("Version {n}", { n: each.version })}</span>
              {each.content && <p>{each.content}</p>}
              {(each.valid_from || each.valid_until) && <p class="meta">{t("True")}: {span(each.valid_from, each.valid_until)}</p>}
            </li>
          ))}
        </ol>
      </section>
      {deleting && (
        <Sure title={t("Delete")} text={t("Delete this memory for good, with its history and what it replaced?")} word={t("Delete")} close={() => setDeleting(null)} go={() => void remove()}>
          <p class="content"><Exact text={deleting.content} /></p>
          {deleting.subject && <p class="meta">{t("Subject")}: <Exact text={deleting.subject} /></p>}
        </Sure>
      )}
    </>
  );
}

const span = (from: string | null, until: string | null): string => `${from ? moment(from) : "…"} – ${until ? moment(until) : "…"}`;

function Quarantine({ agent, found, problem, changed }: { agent: string; found: Memory[] | null; problem: string; changed: () => void }) {
  const [failure, setFailure] = useState("");
  // When a memory goes, others move: the next press at that place is not about the one that is there now.
  const isStill = useStill(found);
  const act = async (work: Promise<unknown>) => {
    try {
      await work;
      setFailure("");
    } catch (error) {
      setFailure(messageOf(error));
    }
    changed();
  };
  return (
    <section class="card" aria-label={t("Quarantine")}>
      <p class="meta">{t("These memories read like instructions. No model is shown them until you release them.")}</p>
      <Problem>{failure || problem}</Problem>
      {found && !found.length && <p class="empty">{t("Nothing is in quarantine.")}</p>}
      <ul class="rows">
        {found?.map((each) => (
          <li key={each.id}>
            <p class="content"><Exact text={each.content} /></p>
            {each.subject && <p class="meta">{t("Subject")}: <Exact text={each.subject} /></p>}
            <span class="meta">{word(each.source)} {each.source_id ?? ""} · {moment(each.created_at)}</span>
            <div class="actions">
              <button disabled={!isStill} onClick={() => void act(post(addressAt(agent, `memories/${encodeURIComponent(each.id)}/release`, { version: String(each.version) })))}>{t("Release")}</button>
              <button class="danger" disabled={!isStill} onClick={() => void act(call("DELETE", addressAt(agent, `memories/${encodeURIComponent(each.id)}`, { version: String(each.version) })))}>{t("Delete")}</button>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface UndoEffect { removed: Memory[]; restored: Memory[] }

function Texts({ title, memories }: { title: string; memories: Memory[] }) {
  if (!memories.length) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="rows">{memories.map((each) => <li key={each.id}>{each.subject && <><Exact text={each.subject} />: </>}<Exact text={each.content} /></li>)}</ul>
    </>
  );
}

function Batches({ agent, changed }: { agent: string; changed: () => void }) {
  const batches = useRead(() => get<Batch[]>(addressAt(agent, "memories/batches")), [agent]);
  const [asked, setAsked] = useState<{ id: string; effect: UndoEffect } | null>(null);
  const [told, setTold] = useState("");
  const [problem, setProblem] = useState("");
  const pathOf = (id: string): string => `memories/batches/${encodeURIComponent(id)}`;
  const ask = async (id: string) => {
    try {
      setAsked({ id, effect: await get<UndoEffect>(addressAt(agent, pathOf(id))) });
      setProblem("");
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  const undo = async () => {
    const { id } = asked!;
    setAsked(null);
    try {
      const made = await post<{ removed: string[]; restored: string[] }>(addressAt(agent, `${pathOf(id)}/undo`));
      setTold(t("{a} removed, {b} restored", { a: made.removed.length, b: made.restored.length }));
      setProblem("");
      batches.again();
      changed();
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  return (
    <section class="card" aria-label={t("Changes")}>
      <p class="meta">{t("Models made these changes in the background, each from one answer.")}</p>
      <Problem>{problem || batches.problem}</Problem>
      {told && <p class="note" role="status">{told}</p>}
      {batches.value && !batches.value.length && <p class="empty">{t("No model changed anything yet.")}</p>}
      <ul class="rows">
        {batches.value?.map((each) => (
          <li key={each.id}>
            <div class="line">
              <span><strong>{word(each.kind)}</strong> <span class={`badge ${each.state === "done" ? "done" : ""}`}>{word(each.state)}</span></span>
              {each.state === "done" && <button onClick={() => void ask(each.id)}>{t("Undo")}</button>}
            </div>
            <span class="meta marks">
              <span>{moment(each.created_at)}</span>
              {each.session && each.kind === "extraction" && <a href={addressOf({ session: each.session })}>{t("Session")}</a>}
              <span>{each.model}</span><span>{money(each.cost_usd)}</span>
              {Object.entries(each.outcomes).map(([outcome, count]) => <span key={outcome}>{word(outcome)}: {count}</span>)}
            </span>
          </li>
        ))}
      </ul>
      {asked && (
        <Sure title={t("Undo")} text={t("Remove the memories that this change added, and restore those that it replaced?")} word={t("Undo")} close={() => setAsked(null)} go={() => void undo()}>
          <Texts title={t("It removes")} memories={asked.effect.removed} />
          <Texts title={t("It restores")} memories={asked.effect.restored} />
        </Sure>
      )}
    </section>
  );
}

function Profiles({ agent, changes }: { agent: string; changes: number }) {
  return <div class="columns"><Profile agent={agent} kind="user" changes={changes} /><Profile agent={agent} kind="project" changes={changes} /></div>;
}

const SEPARATOR = " | ";
const PARTS = ["decision", "reason", "time"];

/** A field as lines to look at or to edit; an entry of several parts has bars between them. */
function linesOf({ value }: Field): string[] {
  if (typeof value === "string") return value ? [value] : [];
  return value.map((each) => (typeof each === "string" ? each : PARTS.map((name) => String(each[name] ?? "")).join(SEPARATOR).replace(/( \| )+$/, "")));
}

/** What the service takes for a field: lists as JSON. */
function given(name: string, field: Field, text: string): string {
  if (typeof field.value === "string") return text;
  const lines = text.split("\n").map((each) => each.trim()).filter(Boolean);
  if (!lines.length) return "";
  return JSON.stringify(name === "key_decisions" ? lines.map((line) => Object.fromEntries(line.split("|").slice(0, 3).map((part, at) => [PARTS[at], part.trim()]))) : lines);
}

/** A field's name for people. */
const nameOf = (name: string): string => word(name).replaceAll("_", " ");
const writtenBy = (field: Field): string => (field.by === "hand" ? linesOf(field).join("\n") : "");

function Profile({ agent, kind, changes }: { agent: string; kind: "user" | "project"; changes: number }) {
  const path = `profiles/${kind}`;
  const profile = useRead(() => tagged<ProfileOf>(addressAt(agent, path)), [agent, kind, changes]);
  const [isEditing, setEditing] = useState(false);
  /** What a hand had written in the fields that were changed last. */
  const [former, setFormer] = useState<Record<string, string> | null>(null);
  const [problem, setProblem] = useState("");
  const all = profile.value?.value.fields ?? {};
  const fields = Object.entries(all).filter(([, each]) => each.value.length > 0);
  const title = t(kind === "user" ? "Of the user" : "Of the project");
  const write = async (texts: Record<string, string>) => {
    try {
      const values = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, given(name, all[name], text)]));
      await call("PATCH", addressAt(agent, path), { fields: values }, { "If-Match": profile.value!.tag });
      setFormer(Object.fromEntries(Object.keys(texts).map((name) => [name, writtenBy(all[name])])));
      setProblem("");
      setEditing(false);
    } catch (error) {
      setProblem(messageOf(error));
      // Somebody else changed it: what was written stays, and the next try is of what is there now.
      if (!(error instanceof Refused && error.status === 412)) return;
    }
    profile.again();
  };
  const draw = () => post(addressAt(agent, `${path}/draw`)).then(() => { setProblem(""); profile.again(); }, (error) => setProblem(messageOf(error)));
  return (
    <section class="card" aria-label={title}>
      <div class="line">
        <h2>{title}</h2>
        {profile.value && (
          <span class="actions">
            {former && <button onClick={() => void write(former)}>{t("Undo")}</button>}
            <button title={t("Read the memories again; what a person wrote stays")} onClick={() => void draw()}>{t("Draw from memories")}</button>
            <button onClick={() => { setProblem(""); setEditing(true); }}>{t("Edit")}</button>
          </span>
        )}
      </div>
      {profile.problem && <p class="meta">{profile.problem}</p>}
      {problem && !isEditing && <p class="problem" role="alert">{problem}</p>}
      {profile.value && !fields.length && <p class="empty">{t("Nothing is known yet.")}</p>}
      <dl class="facts">
        {fields.map(([name, field]) => [
          <dt key={`${name}:`}>{nameOf(name)}</dt>,
          <dd key={name}>
            {linesOf(field).map((each, at) => <p key={at}>{each.replaceAll(SEPARATOR, " · ")}</p>)}
            <span class="meta">{word(field.by)} {field.sources.map((each) => <a key={each} href={addressOf({ session: null, room: "memory", agent, item: each })}>{each} </a>)}</span>
            {field.by === "hand" && <button class="link" onClick={() => void write({ [name]: "" })}>{t("Give back to the memories")}</button>}
          </dd>,
        ])}
      </dl>
      {isEditing && <EditProfile title={title} profile={profile.value!.value} problem={problem} write={write} close={() => setEditing(false)} />}
    </section>
  );
}

function EditProfile(props: { title: string; profile: ProfileOf; problem: string; write: (texts: Record<string, string>) => Promise<void>; close: () => void }) {
  const { fields, choices } = props.profile;
  const names = Object.keys(fields);
  const written = (name: string) => editable(writtenBy(fields[name]));
  const [texts, setTexts] = useState(() => Object.fromEntries(names.map((name) => [name, written(name)])));
  const set = (name: string, text: string) => setTexts({ ...texts, [name]: text });
  const changed = Object.fromEntries(names.filter((name) => texts[name] !== written(name)).map((name) => [name, texts[name]]));
  return (
    <Dialog title={props.title} close={props.close}>
      <form class="form" onSubmit={(event) => { event.preventDefault(); void props.write(changed); }}>
        <p class="meta">{t("What you write here is never overwritten. An empty field is drawn from memories again. Entries of a list are lines; of a decision: what | why | when.")}</p>
        {names.map((name) => {
          const drawn = fields[name].by === "hand" ? "" : linesOf(fields[name]).join("\n");
          return (
            <label key={name}>
              {nameOf(name)}
              {choices[name] ? (
                <select value={texts[name]} onChange={(event) => set(name, event.currentTarget.value)}>
                  <Choice value="" text={drawn ? word(drawn) : "–"} />
                  {choices[name].map((each) => <option key={each} value={each}>{word(each)}</option>)}
                </select>
              ) : <textarea class="theirs" rows={typeof fields[name].value === "string" && name !== "content" ? 1 : 3} maxLength={2000} value={texts[name]} placeholder={drawn} onInput={(event) => set(name, event.currentTarget.value)} />}
            </label>
          );
        })}
        {props.problem && <p class="problem" role="alert">{props.problem}</p>}
        <div class="actions"><button class="primary" disabled={!Object.keys(changed).length}>{t("Save")}</button><button type="button" onClick={props.close}>{t("Cancel")}</button></div>
      </form>
    </Dialog>
  );
}

function NewMemory({ agent, close, saved }: { agent: string; close: () => void; saved: () => void }) {
  const [values, setValues] = useState({ content: "", memory_type: "fact", scope: "user" });
  const [problem, setProblem] = useState("");
  const save = async (event: Event) => {
    event.preventDefault();
    try {
      await post(addressAt(agent, "memories"), values);
      saved();
      close();
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  const choice = (name: "memory_type" | "scope", label: Key, all: string[]) => (
    <label>{t(label)}<select value={values[name]} onChange={(event) => setValues({ ...values, [name]: event.currentTarget.value })}>{all.map((each) => <option key={each} value={each}>{word(each)}</option>)}</select></label>
  );
  return (
    <Dialog title={t("New memory")} close={close}>
      <form class="form" onSubmit={save}>
        <label>{t("Text")}<textarea rows={3} required value={values.content} onInput={(event) => setValues({ ...values, content: event.currentTarget.value })} /></label>
        {choice("memory_type", "Type", TYPES)}
        {choice("scope", "Scope", SCOPES)}
        {problem && <p class="problem" role="alert">{problem}</p>}
        <div class="actions"><button class="primary" disabled={!values.content.trim()}>{t("Save")}</button><button type="button" onClick={close}>{t("Cancel")}</button></div>
      </form>
    </Dialog>
  );
}

function Sure(props: { title: string; text: string; word: string; close: () => void; go: () => void; children?: ComponentChildren }) {
  return (
    <Dialog title={props.title} close={props.close}>
      <p>{props.text}</p>
      {props.children}
      <div class="actions">
        <button onClick={props.close}>{t("Cancel")}</button>
        <button class="danger" onClick={props.go}>{props.word}</button>
      </div>
    </Dialog>
  );
}
