// The files that a session's tools wrote, to look at and to save.

import { get } from "./api";
import { Dialog } from "./dialog";
import { Exact } from "./exact";
import { t, when } from "./i18n";
import { Icon } from "./icons";
import { useRead } from "./reading";
import { doubled } from "./visible";

interface Artifact { path: string; size_bytes: number; modified_ms: number }

const PICTURE = /\.(png|jpe?g|gif|webp)$/i;

export function Artifacts({ session, close }: { session: string; close: () => void }) {
  const of = `v1/sessions/${encodeURIComponent(session)}/artifacts`;
  const { value: found, problem } = useRead(() => get<Artifact[]>(of), [session]);
  return (
    <Dialog title={t("Files that tools wrote")} close={close}>
      {problem && <p class="problem" role="alert">{problem}</p>}
      {found && !found.length && <p class="meta">{t("No tool of this session wrote a file that is still there.")}</p>}
      <ul class="rows artifacts">
        {found?.map((each) => {
          const address = `${of}/content?path=${encodeURIComponent(each.path)}`;
          return (
            <li key={each.path}>
              <a href={address} download={each.path.split("/").pop()}><Icon name="clip" /><span class="path"><Exact text={doubled(each.path)} /></span></a>
              <span class="meta"> {Math.max(1, Math.round(each.size_bytes / 1000))} kB · {when(each.modified_ms)}</span>
              {PICTURE.test(each.path) && <img src={address} alt={each.path} loading="lazy" />}
            </li>
          );
        })}
      </ul>
    </Dialog>
  );
}
