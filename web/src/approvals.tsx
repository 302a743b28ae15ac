// Calls that wait for a decision: exactly what would run, and the change that it would make.

import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import { difference } from "./diff";
import { t } from "./i18n";
import { Arguments } from "./tools";

export function Approvals({ ids, reload }: { ids: string[]; reload: () => Promise<void> }) {
  const [found, setFound] = useState<api.Approval[]>([]);
  const wanted = ids.join(" ");
  useEffect(() => {
    let isOld = false;
    void Promise.all(ids.map((id) => api.approval(id).catch(() => null))).then((each) => {
      if (!isOld) setFound(each.filter((one) => one !== null));
    });
    return () => { isOld = true; };
  }, [wanted]);
  return (
    <>
      {found.filter((each) => ids.includes(each.id)).map((each) => (
        <ApprovalCard key={each.id} approval={each} decided={() => { setFound((all) => all.filter((one) => one.id !== each.id)); void reload(); }} />
      ))}
    </>
  );
}

function Diff({ change }: { change: api.Change }) {
  return (
    <figure class="diff">
      <figcaption>{change.path}{change.before === null && <span class="badge">{t("new file")}</span>}</figcaption>
      <pre tabIndex={0}>
        {difference(change.before ?? "", change.after).map((line) => (
          <span class={{ "+": "added", "-": "gone", "@": "skip", " ": "" }[line.kind]}>{line.kind === "@" ? "" : line.kind} {line.text}{"\n"}</span>
        ))}
      </pre>
    </figure>
  );
}

function ApprovalCard({ approval, decided }: { approval: api.Approval; decided: () => void }) {
  const isQuestion = approval.answer_schema !== undefined;
  const [reason, setReason] = useState("");
  const [edited, setEdited] = useState<string | null>(null);
  const [always, setAlways] = useState(false);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const decide = async (body: api.Json) => {
    setBusy(true);
    try {
      await api.decide(approval.id, body);
      decided();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  };
  const approve = () => {
    let changed: api.Json | undefined;
    if (edited !== null) {
      try {
        changed = JSON.parse(edited);
        if (typeof changed !== "object" || changed === null || Array.isArray(changed)) throw new Error();
      } catch {
        setProblem(t("The arguments are not a JSON object"));
        return;
      }
    }
    void decide({ decision: "approve", always, ...(changed ? { changed } : {}) });
  };
  const changes = edited === null ? (approval.changes ?? []) : [];
  return (
    <section class="approval" aria-label={isQuestion ? t("The agent asks") : t("Approve this call?")}>
      <h2>{isQuestion ? t("The agent asks") : t("Approve this call?")} <code>{approval.tool_name}</code></h2>
      {approval.reason && <p>{approval.reason}</p>}
      {isQuestion ? (
        <Form schema={approval.answer_schema!} isBusy={isBusy} answer={(changed) => void decide({ decision: "approve", changed })} decline={() => void decide({ decision: "reject" })} />
      ) : (
        <>
          <div class="exactly">
            {changes.map((each) => <Diff key={each.path} change={each} />)}
            {edited === null
              ? changes.length > 0
                ? <details><summary>{t("Arguments")}</summary><Arguments args={approval.parameters} /></details>
                : <Arguments args={approval.parameters} />
              : <textarea class="edit" rows={Math.min(16, edited.split("\n").length + 1)} value={edited} aria-label={t("Arguments")} onInput={(event) => setEdited(event.currentTarget.value)} />}
            {approval.problem && <p class="meta">{approval.problem}</p>}
          </div>
          <div class="actions">
            <button class="primary" disabled={isBusy} onClick={approve}>{t("Approve")}</button>
            <button class="danger" disabled={isBusy} onClick={() => void decide({ decision: "reject", reason })}>{t("Reject")}</button>
            <input class="reason" value={reason} placeholder={t("Reason for the model (optional)")} aria-label={t("Reason for the model (optional)")} onInput={(event) => setReason(event.currentTarget.value)} />
            <button class="link" onClick={() => setEdited(edited === null ? JSON.stringify(approval.parameters, null, 2) : null)}>
              {edited === null ? t("Edit arguments") : t("Keep the arguments")}
            </button>
            {approval.may_remember && (
              <label class="inline"><input type="checkbox" checked={always} onChange={(event) => setAlways(event.currentTarget.checked)} />{t("Do not ask about this tool again")}</label>
            )}
          </div>
        </>
      )}
      {approval.expires_ms && <p class="meta">{t("Expires {time}", { time: new Date(approval.expires_ms).toLocaleTimeString() })}</p>}
      {problem && <p class="problem" role="alert">{problem}</p>}
    </section>
  );
}

/** A question's form, from its JSON Schema. The service checks the answer. */
function Form(props: { schema: api.Json; isBusy: boolean; answer: (value: api.Json) => void; decline: () => void }) {
  const fields = Object.entries((props.schema.properties ?? {}) as Record<string, api.Json>);
  const required = new Set<string>(props.schema.required ?? []);
  const [values, setValues] = useState<api.Json>(
    Object.fromEntries(fields.filter(([, about]) => about.default !== undefined).map(([name, about]) => [name, about.default])));
  const set = (name: string, value: unknown) =>
    setValues(({ [name]: _, ...rest }) => (value === "" || value === undefined ? rest : { ...rest, [name]: value }));
  return (
    <form class="form" onSubmit={(event) => { event.preventDefault(); props.answer(values); }}>
      {fields.map(([name, about]) => (
        <label key={name} class={about.type === "boolean" ? "inline" : ""}>
          {about.type === "boolean" && <input type="checkbox" checked={!!values[name]} onChange={(event) => set(name, event.currentTarget.checked)} />}
          <span>{about.title ?? name}{required.has(name) && <abbr title={t("Required")}> *</abbr>}</span>
          {about.description && <span class="meta">{about.description}</span>}
          {about.type !== "boolean" && <Field about={about} value={values[name]} isRequired={required.has(name)} set={(value) => set(name, value)} />}
        </label>
      ))}
      <div class="actions">
        <button class="primary" disabled={props.isBusy}>{t("Answer")}</button>
        <button type="button" disabled={props.isBusy} onClick={props.decline}>{t("Decline")}</button>
      </div>
    </form>
  );
}

interface Choice { value: unknown; title: string }

function choices(about: api.Json): Choice[] | null {
  if (Array.isArray(about.enum)) return about.enum.map((value: unknown, at: number) => ({ value, title: String(about.enumNames?.[at] ?? value) }));
  const named = about.oneOf ?? about.anyOf;
  if (Array.isArray(named) && named.every((each) => "const" in each)) return named.map((each) => ({ value: each.const, title: String(each.title ?? each.const) }));
  return null;
}

function Field({ about, value, isRequired, set }: { about: api.Json; value: unknown; isRequired: boolean; set: (value: unknown) => void }) {
  const known = choices(about);
  if (known) {
    const at = known.findIndex((each) => each.value === value);
    return (
      <select required={isRequired} value={at < 0 ? "" : String(at)} onChange={(event) => set(event.currentTarget.value === "" ? undefined : known[Number(event.currentTarget.value)].value)}>
        <option value="" />
        {known.map((each, index) => <option value={String(index)}>{each.title}</option>)}
      </select>
    );
  }
  const many = about.type === "array" ? choices(about.items ?? {}) : null;
  if (many) {
    const chosen = (Array.isArray(value) ? value : []) as unknown[];
    return (
      <span class="choices">
        {many.map((each) => (
          <label class="inline">
            <input type="checkbox" checked={chosen.includes(each.value)} onChange={(event) => set(event.currentTarget.checked ? [...chosen, each.value] : chosen.filter((one) => one !== each.value))} />
            {each.title}
          </label>
        ))}
      </span>
    );
  }
  if (about.type === "number" || about.type === "integer")
    return (
      <input
        type="number" required={isRequired} step={about.type === "integer" ? 1 : "any"} min={about.minimum} max={about.maximum}
        value={value === undefined ? "" : String(value)} onInput={(event) => set(event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)}
      />
    );
  const formats = { email: "email", uri: "url", date: "date" } as const;
  return (
    <input
      type={(formats[about.format as keyof typeof formats] ?? "text") as "text"} required={isRequired} minLength={about.minLength} maxLength={about.maxLength}
      value={value === undefined ? "" : String(value)} onInput={(event) => set(event.currentTarget.value)}
    />
  );
}
