// The page: login, the list of sessions, and the session that is shown.

import { render } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { Coded } from "./exact";
import { initialLanguage, type Language, setLanguage, t } from "./i18n";
import { Icon } from "./icons";
import { RoomLinks, RoomView } from "./room";
import { SessionList } from "./sessions";
import { SessionView } from "./session";
import { type Place, go, placeNow } from "./place";
import { applyTheme, Settings } from "./settings";
import { drawVisibly } from "./visible";

function Login({ onDone }: { onDone: () => void }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    const given = token.trim();
    // The whole printed address may be pasted too.
    const inside = /[?&]token=([^&\s]+)/.exec(given);
    try {
      await api.login(inside ? decodeURIComponent(inside[1]) : given);
      onDone();
    } catch (error) {
      setProblem(error instanceof api.Problem && error.status === 401 ? t("This token is not valid.") : String(error));
    }
  };
  return (
    <main class="login">
      <form onSubmit={submit}>
        <h1>Zeus</h1>
        <p><Coded text={t("Open the address that `zeus serve` printed, or paste its token or your key here.")} /></p>
        <label>
          {t("Token")}
          <input type="password" autocomplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} autofocus />
        </label>
        {problem && <p class="problem" role="alert">{problem}</p>}
        <button class="primary" disabled={!token.trim()}>{t("Log in")}</button>
      </form>
    </main>
  );
}

const REFRESH_MS = 5000;

function Page() {
  const [language, choose] = useState<Language>(initialLanguage);
  setLanguage(language);
  const [isStranger, setStranger] = useState(false);
  const [logins, setLogins] = useState(0);
  const [agents, setAgents] = useState<api.AgentInfo[] | null>(null);
  const [sessions, setSessions] = useState<api.ListPart<api.SessionInfo[]> | null>(null);
  const [place, setPlace] = useState<Place>(placeNow);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [hasSettings, setSettings] = useState(false);
  const [problem, setProblem] = useState("");
  const search = useRef<HTMLInputElement>(null);

  const refresh = useCallback(async () => {
    try {
      const [known, found] = await Promise.all([api.agents(), api.sessions()]);
      setAgents(known);
      setSessions({ ...found, value: found.value.filter((each) => !each.parent) });
      setProblem("");
    } catch (error) {
      if (!(error instanceof api.Problem && error.status === 401)) setProblem(error instanceof api.Problem ? error.message : t("The connection is lost. Trying again…"));
    }
  }, []);

  // Before the browser does anything else: a change of the address in between would be lost.
  useLayoutEffect(() => {
    api.whenStranger(() => setStranger(true));
    const onHash = () => { setPlace(placeNow()); setMenuOpen(false); };
    window.addEventListener("hashchange", onHash);
    return () => window.removeEventListener("hashchange", onHash);
  }, []);
  useEffect(() => {
    void refresh();
    const timer = setInterval(() => { if (!document.hidden) void refresh(); }, REFRESH_MS);
    const onShown = () => { if (!document.hidden) void refresh(); };
    document.addEventListener("visibilitychange", onShown);
    return () => { clearInterval(timer); document.removeEventListener("visibilitychange", onShown); };
  }, [refresh, logins]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = (event.target as HTMLElement).matches("input, textarea, select");
      if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !isTyping)) {
        event.preventDefault();
        setMenuOpen(true);
        search.current?.focus();
      } else if (event.key === "n" && event.altKey) {
        event.preventDefault();
        go({ session: null });
      } else if (event.key === "Escape") setMenuOpen(false);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);

  const onLogin = () => { setStranger(false); setLogins(logins + 1); };
  const shown = sessions?.value.find((each) => each.session === place.session) ?? null;
  // What is typed or shown stays behind the login, so that it is there afterwards.
  return (
    <>
      {isStranger && <Login onDone={onLogin} />}
      <div class="layout" hidden={isStranger}>
        <nav class={isMenuOpen ? "side open" : "side"} aria-label={t("Sessions")}>
          <div class="bar">
            <strong class="brand">Zeus</strong>
            <button class="quiet" aria-label={t("Settings")} title={t("Settings")} onClick={() => setSettings(true)}><Icon name="gear" /></button>
            <button class="quiet" aria-label={t("New session")} title={`${t("New session")} (Alt+N)`} onClick={() => { go({ session: null }); setMenuOpen(false); }}><Icon name="plus" /></button>
            <button class="quiet only-narrow" aria-label={t("Close")} onClick={() => setMenuOpen(false)}><Icon name="close" /></button>
          </div>
          <RoomLinks place={place} agent={place.agent ?? shown?.agent.split("/")[0]} />
          <SessionList sessions={sessions} shown={place.session} search={search} hasAgents={(agents?.length ?? 0) > 1} />
        </nav>
        {isMenuOpen && <div class="shade only-narrow" onClick={() => setMenuOpen(false)} />}
        <main class="main">
          {problem && <p class="banner" role="status">{problem}</p>}
          {agents && place.room && <RoomView key={`${place.room} ${logins}`} place={place} agents={agents} openMenu={() => setMenuOpen(true)} />}
          {agents && !place.room && (
            <SessionView
              key={`${place.session ?? "new"} ${logins}`}
              session={place.session}
              info={shown}
              place={place}
              agents={agents}
              openMenu={() => setMenuOpen(true)}
              changed={refresh}
            />
          )}
        </main>
      </div>
      {hasSettings && <Settings language={language} choose={choose} close={() => setSettings(false)} />}
    </>
  );
}

drawVisibly();
applyTheme();
render(<Page />, document.getElementById("page")!);
