// The knowledge bases of an agent: their documents, and a search that cites where each passage is.

import { useState } from "preact/hooks";
import { type AgentInfo, get } from "./api";
import { Coded } from "./exact";
import { number, t, when, word } from "./i18n";
import { addressOf } from "./place";
import { useRead, useSettled } from "./reading";
import { Problem } from "./room";

interface Base { name: string; scope: string; documents: number; chunks: number; embedding: string; chunk_tokens: number; updated_ms: number; linked: boolean }
interface OneBase extends Base { sources: string[]; files: { path: string; chunks: number; size_bytes: number; ready: boolean }[] }
interface Hit { base: string; source: string; heading: string; position: string; content: string; citation: string; vector_rank: number | null; word_rank: number | null }

const WAIT_MS = 300;
/** A longer list is slow to draw; the filter finds the others. */
const MOST = 300;

export function KnowledgeView({ agent, base }: { agent: AgentInfo; base: string | null }) {
  const query = new URLSearchParams({ agent: agent.name });
  const bases = useRead(() => get<Base[]>(`v1/knowledge?${query}`), [agent.name]);
  const chosen = bases.value?.find((each) => each.name === base) ?? bases.value?.[0];
  return (
    <>
      <Problem>{bases.problem}</Problem>
      {bases.value && !chosen && <p class="empty"><Coded text={t("There is no knowledge base yet. `zeus kb add NAME PATH` makes one.")} /></p>}
      {bases.value && bases.value.length > 1 && (
        <ul class="choices-of">
          {bases.value.map((each) => (
            <li key={each.name}>
              <a href={addressOf({ session: null, room: "knowledge", agent: agent.name, item: each.name })} aria-current={each === chosen ? "true" : undefined}>{each.name}</a>
            </li>
          ))}
        </ul>
      )}
      {chosen && <OneView key={chosen.name} agent={agent.name} base={chosen} />}
    </>
  );
}

function OneView({ agent, base }: { agent: string; base: Base }) {
  const [text, setText] = useState("");
  const query = useSettled(text.trim(), WAIT_MS);
  const path = `v1/knowledge/${encodeURIComponent(base.name)}`;
  const found = useRead(
    async () => (query ? get<{ hits: Hit[]; notices: string[] }>(`${path}/search?${new URLSearchParams({ agent, query, k: "10" })}`) : null), [agent, base.name, query]);
  return (
    <>
      <section class="card" aria-label={t("Search")}>
        <div class="line">
          <h2>{base.name} <span class="meta">{word(base.scope)}{base.linked && ` · ${t("the agent searches it")}`}</span></h2>
          <span class="meta">{t("Documents: {a} · passages: {b}", { a: number(base.documents), b: number(base.chunks) })} · {when(base.updated_ms)}</span>
        </div>
        <input type="search" class="full" value={text} placeholder={t("Search as the agent does")} aria-label={t("Search as the agent does")} onInput={(event) => setText(event.currentTarget.value)} />
        <Problem>{found.problem}</Problem>
        {found.value?.notices.map((each) => <p class="banner" key={each}>{each}</p>)}
        {found.value && !found.value.hits.length && <p class="empty">{t("Nothing fits that.")}</p>}
        <ol class="rows hits">
          {found.value?.hits.map((each) => (
            <li key={each.citation + each.content}>
              <p class="cite"><cite>{each.citation}</cite> <span class="meta">{ranks(each)}</span></p>
              <blockquote>{each.content}</blockquote>
            </li>
          ))}
        </ol>
      </section>
      <Documents path={`${path}?${new URLSearchParams({ agent })}`} />
    </>
  );
}

const ranks = (hit: Hit): string =>
  [hit.vector_rank !== null && t("by meaning {n}", { n: hit.vector_rank }), hit.word_rank !== null && t("by words {n}", { n: hit.word_rank })].filter(Boolean).join(" · ");

function Documents({ path }: { path: string }) {
  const base = useRead(() => get<OneBase>(path), [path]);
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const files = (base.value?.files ?? []).filter((each) => each.path.toLowerCase().includes(wanted));
  return (
    <section class="card" aria-label={t("Documents")}>
      <div class="line">
        <h2>{t("Documents")}</h2>
        {(base.value?.files.length ?? 0) > 10 && <input type="search" value={text} placeholder={t("Filter")} aria-label={t("Filter")} onInput={(event) => setText(event.currentTarget.value)} />}
      </div>
      <Problem>{base.problem}</Problem>
      <div class="scroll" tabIndex={0} role="group" aria-label={t("Documents")}>
        <table class="files-of">
          <thead><tr><th>{t("Document")}</th><th class="number">{t("Passages")}</th><th class="number">{t("Size")}</th></tr></thead>
          <tbody>
            {files.slice(0, MOST).map((each) => (
              <tr key={each.path}>
                <td>{each.path}{!each.ready && <span class="badge waiting">{t("not finished")}</span>}</td>
                <td class="number">{number(each.chunks)}</td><td class="number">{number(Math.ceil(each.size_bytes / 1000))} kB</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {files.length > MOST && <p class="meta">{t("{n} more: search for them", { n: number(files.length - MOST) })}</p>}
      {base.value && <p class="meta">{t("Added")}: {base.value.sources.join(", ")} · {base.value.embedding}</p>}
    </section>
  );
}
