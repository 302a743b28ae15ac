// What an agent remembers, what it can look up, and exactly what it runs.

import type { ComponentChildren } from "preact";
import type { AgentInfo } from "./api";
import { type Key, t } from "./i18n";
import { Icon } from "./icons";
import { KnowledgeView } from "./knowledge";
import { MemoryView } from "./memory";
import { addressOf, go, type Place, type Room, ROOMS } from "./place";
import { PlanView } from "./plan";

const NAMES: Record<Room, Key> = { memory: "Memory", knowledge: "Knowledge", plan: "Plan" };

export function RoomLinks({ place, agent }: { place: Place; agent: string | undefined }) {
  return (
    <ul class="rooms">
      {ROOMS.map((room) => (
        <li key={room}><a href={addressOf({ session: null, room, agent })} aria-current={place.room === room ? "page" : undefined}><Icon name={room} />{t(NAMES[room])}</a></li>
      ))}
    </ul>
  );
}

export function RoomView({ place, agents, openMenu }: { place: Place; agents: AgentInfo[]; openMenu: () => void }) {
  const room = place.room!;
  const agent = agents.find((each) => each.name === place.agent) ?? agents[0];
  if (!agent) return <p class="empty">{t("You may use no agent of this service.")}</p>;
  return (
    <>
      <header class="bar top">
        <button class="quiet only-narrow" aria-label={t("Menu")} onClick={openMenu}><Icon name="menu" /></button>
        <div class="heading">
          <h1>{t(NAMES[room])}</h1>
          <span class="meta">{agent.name}</span>
        </div>
        {agents.length > 1 && (
          <label class="inline">
            <span class="only-wide">{t("Agent")}</span>
            <select aria-label={t("Agent")} value={agent.name} onChange={(event) => go({ session: null, room, agent: event.currentTarget.value })}>
              {agents.map((each) => <option key={each.name}>{each.name}</option>)}
            </select>
          </label>
        )}
      </header>
      <div class="context" tabIndex={0} role="region" aria-label={t(NAMES[room])}>
        <div class="wide">
          {room === "memory" && <MemoryView key={agent.name} agent={agent} item={place.item ?? null} />}
          {room === "knowledge" && <KnowledgeView key={agent.name} agent={agent} base={place.item ?? null} />}
          {room === "plan" && <PlanView key={`${agent.name} ${place.session}`} agent={agent} session={place.session} />}
        </div>
      </div>
    </>
  );
}

export const Problem = ({ children }: { children: ComponentChildren }) => (children ? <p class="banner problem" role="alert">{children}</p> : null);

/** Choices of which one is shown, as in a tab list. */
export function Segments<T extends string>(props: { label: string; names: Record<T, string>; chosen: T; choose: (each: T) => void }) {
  return (
    <span class="measures segments" role="group" aria-label={props.label}>
      {(Object.keys(props.names) as T[]).map((each) => (
        <button key={each} class="quiet" aria-pressed={each === props.chosen} onClick={() => props.choose(each)}>{props.names[each]}</button>
      ))}
    </span>
  );
}
