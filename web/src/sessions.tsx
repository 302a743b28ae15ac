import type { RefObject } from "preact";
import { useState } from "preact/hooks";
import type { SessionInfo } from "./api";
import { number, t, when, word } from "./i18n";
import { addressOf } from "./place";
import { visible } from "./visible";

/** A longer list is slow to draw, and nobody reads it. */
const MOST = 200;
const LIVELY = new Set(["open", "approval", "running", "waiting", "queued"]);

export function SessionList(props: {
  sessions: SessionInfo[] | null; shown: string | null; search: RefObject<HTMLInputElement | null>; hasAgents: boolean;
}) {
  const [query, setQuery] = useState("");
  const wanted = query.trim().toLowerCase();
  const found = (props.sessions ?? []).filter((each) =>
    [each.title, each.session, each.agent].some((text) => text.toLowerCase().includes(wanted)));
  return (
    <>
      <input
        ref={props.search} class="search" type="search" value={query} placeholder={t("Search sessions")}
        aria-label={t("Search sessions")} onInput={(event) => setQuery(event.currentTarget.value)}
      />
      <ul class="sessions">
        {found.slice(0, MOST).map((each) => (
          <li key={each.session}>
            <a href={addressOf({ session: each.session })} aria-current={each.session === props.shown ? "page" : undefined}>
              <span class="title">{visible(each.title) || t("New session")}</span>
              <span class="meta">
                {props.hasAgents && <span>{each.agent}</span>}
                <span>{when(each.updated_ms)}</span>
                {(LIVELY.has(each.state) || each.state === "error") && <span class={`state is-${each.state}`}>{word(each.state)}</span>}
              </span>
            </a>
          </li>
        ))}
      </ul>
      {found.length > MOST && <p class="empty">{t("{n} more: search for them", { n: number(found.length - MOST) })}</p>}
      {props.sessions && !found.length && <p class="empty">{wanted ? t("No session matches") : t("No session yet")}</p>}
    </>
  );
}
