import { useState } from "preact/hooks";
import { logout } from "./api";
import { Dialog } from "./dialog";
import { type Language, t } from "./i18n";

type Theme = "" | "light" | "dark";

export function applyTheme(): void {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
}

const KEYS = [
  ["/", "search"], ["Alt N", "new session"], ["Enter", "send"], ["Shift Enter", "new line"],
  ["Alt C", "chat or context"], ["← →", "previous or next step"],
] as const;

export function Settings(props: { language: Language; choose: (language: Language) => void; close: () => void }) {
  const [theme, setTheme] = useState<Theme>((localStorage.getItem("theme") ?? "") as Theme);
  const chooseTheme = (value: Theme) => {
    localStorage.setItem("theme", value);
    applyTheme();
    setTheme(value);
    window.dispatchEvent(new Event("themechange"));
  };
  const chooseLanguage = (value: Language) => {
    localStorage.setItem("language", value);
    props.choose(value);
  };
  return (
    <Dialog title={t("Settings")} close={props.close}>
      <div class="fields">
        <label for="language">{t("Language")}</label>
        <select id="language" value={props.language} onChange={(event) => chooseLanguage(event.currentTarget.value as Language)}>
          <option value="en">English</option>
          <option value="zh">中文</option>
        </select>
        <label for="theme">{t("Theme")}</label>
        <select id="theme" value={theme} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
          <option value="">{t("System")}</option>
          <option value="light">{t("Light")}</option>
          <option value="dark">{t("Dark")}</option>
        </select>
      </div>
      <p class="label">{t("Keyboard")}</p>
      <dl class="keys">
        {KEYS.map(([keys, does]) => [<dt>{keys.split(" ").map((each) => <kbd>{each}</kbd>)}</dt>, <dd>{t(does)}</dd>])}
      </dl>
      <div class="actions">
        <button onClick={() => void logout().then(() => location.reload())}>{t("Log out")}</button>
      </div>
    </Dialog>
  );
}
