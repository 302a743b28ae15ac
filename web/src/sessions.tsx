import type { RefObject } from "preact";
import { useState } from "preact/hooks";
import { archivedSessions, type ListPart, searchMessages, type SessionInfo } from "./api";
import { t, when, word } from "./i18n";
import { Icon } from "./icons";
import { addressOf } from "./place";
import { useRead, useSettled } from "./reading";

const WAIT_MS = 300;
/** A shorter text is in nearly every message; a Chinese word has two characters. */
const FEWEST = 2;
const LIVELY = new Set(["open", "approval", "running", "waiting", "queued"]);

export function SessionList(props: {
  sessions: ListPart<SessionInfo[]> | null; shown: string | null; search: RefObject<HTMLInputElement | null>; hasAgents: boolean;
}) {
  const [query, setQuery] = useState("");
  const text = useSettled(query.trim(), WAIT_MS);
  const messages = useRead(async () => (text.length < FEWEST ? [] : searchMessages(text)), [text]);
  const [isArchive, setArchive] = useState(false);
  const archived = useRead(async () => (isArchive ? archivedSessions() : null), [isArchive, props.sessions]);
  const wanted = query.trim().toLowerCase();
  const list = isArchive ? archived.value : props.sessions;
  const found = (list?.value ?? []).filter((each) =>
    [each.title, each.session, each.agent].some((text) => text.toLowerCase().includes(wanted)));
  return (
    <>
      <input
        ref={props.search} class="search" type="search" value={query} placeholder={t("Search sessions")}
        aria-label={t("Search sessions")} onInput={(event) => setQuery(event.currentTarget.value)}
      />
      <ul class="sessions">
        {found.map((each) => (
          <li key={each.session}>
            <a href={addressOf({ session: each.session })} aria-current={each.session === props.shown ? "page" : undefined}>
              <span class="title">{each.title || t("New session")}</span>
              <span class="meta">
                {props.hasAgents && <span>{each.agent}</span>}
                <span>{when(each.updated_ms)}</span>
                {(LIVELY.has(each.state) || each.state === "error") && <span class={`state is-${each.state}`}>{word(each.state)}</span>}
              </span>
            </a>
          </li>
        ))}
      </ul>
      {list?.next && <p class="empty">{t("Older ones are found by their words.")}</p>}
      {!isArchive && props.sessions && !found.length && !(wanted && messages.value?.length) && <p class="empty">{wanted ? t("No session matches") : t("No session yet")}</p>}
      {isArchive && archived.value && !found.length && <p class="empty">{t("No session is archived")}</p>}
      {wanted && messages.value && messages.value.length > 0 && (
        <section class="messages" aria-label={t("Messages")}>
          <h2 class="label">{t("Messages")}</h2>
          <ul class="sessions">
            {messages.value.map((each) => (
              <li key={`${each.session} ${each.number}`}>
                <a href={addressOf({ session: each.session, message: each.number })}>
                  <span class="excerpt">{each.excerpt}</span>
                  <span class="meta"><span class="title">{each.title || t("New session")}</span><span>{when(each.created_ms)}</span></span>
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
      {messages.problem && <p class="problem empty" role="alert">{messages.problem}</p>}
      <button class="quiet archive" aria-pressed={isArchive} onClick={() => setArchive(!isArchive)}><Icon name="box" />{t("Archived sessions")}</button>
    </>
  );
}
