// What the page shows, as the part of the address after "#", so that it can be bookmarked and the back button works.

export const VIEWS = ["chat", "context", "trace"] as const;
export type View = (typeof VIEWS)[number];

/** Views of an agent, beside its sessions. */
export const ROOMS = ["memory", "knowledge", "plan"] as const;
export type Room = (typeof ROOMS)[number];

export interface Place {
  /** The session that is shown; beside a room, the one whose plan is shown. */
  session: string | null;
  view?: View;
  room?: Room;
  /** The agent of a room; by default the first. */
  agent?: string;
  /** The memory or the knowledge base that is shown. */
  item?: string;
  /** The step of the context view. */
  step?: number | null;
  /** The message that is asked about in the context view, or shown in the chat. */
  message?: number | null;
}

export function placeNow(): Place {
  const [, wanted, about] = /^#([a-z]+)\??(.*)$/.exec(location.hash) ?? [];
  const room = ROOMS.find((each) => each === wanted);
  if (room) {
    const values = new URLSearchParams(about);
    return { session: values.get("session"), room, agent: values.get("agent") ?? undefined, item: values.get("item") ?? undefined };
  }
  const [, session = "", view = "", query = ""] = /^#\/([^/?]*)\/?([^?]*)\??(.*)$/.exec(location.hash) ?? [];
  const values = new URLSearchParams(query);
  const whole = (name: string): number | null => (values.get(name) ? Number(values.get(name)) : null);
  return {
    session: session ? decodeURIComponent(session) : null,
    view: VIEWS.find((each) => each === view) ?? "chat",
    step: whole("step"),
    message: whole("message"),
  };
}

export function addressOf(place: Place): string {
  if (place.room) {
    const values = new URLSearchParams();
    if (place.agent) values.set("agent", place.agent);
    if (place.item) values.set("item", place.item);
    if (place.session) values.set("session", place.session);
    return `#${place.room}${values.size ? `?${values}` : ""}`;
  }
  if (!place.session) return "#/";
  const values = new URLSearchParams();
  if (place.step) values.set("step", String(place.step));
  if (place.message) values.set("message", String(place.message));
  const query = values.toString();
  return `#/${encodeURIComponent(place.session)}${!place.view || place.view === "chat" ? "" : `/${place.view}`}${query ? `?${query}` : ""}`;
}

export function go(place: Place, options: { replace?: boolean } = {}): void {
  const address = addressOf(place);
  if (address === location.hash) return;
  if (options.replace) {
    history.replaceState(null, "", address);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = address;
}
