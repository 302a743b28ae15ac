// Files that go along with the next message: uploaded once they are chosen, dropped or pasted.

import { useRef, useState } from "preact/hooks";
import { type Attachment, upload } from "./api";
import { t } from "./i18n";
import { Icon } from "./icons";
import { messageOf } from "./reading";

export interface Attached { key: number; name: string; size: number; picture: string; problem: string; done: Promise<Attachment | null> }

/** The service refuses more with one message. */
const MOST = 20;
const MOST_SHOWN_BYTES = 3_000_000;

export interface Attaching {
  files: Attached[];
  add: (files: FileList | File[]) => void;
  remove: (key: number) => void;
  /** What to send, once all of it is uploaded; fails if a file could not be. */
  ready: () => Promise<Attachment[]>;
  clear: () => void;
}

export function useAttaching(): Attaching {
  const [files, setFiles] = useState<Attached[]>([]);
  const next = useRef(0);
  const change = (key: number, values: Partial<Attached>) => setFiles((all) => all.map((each) => (each.key === key ? { ...each, ...values } : each)));
  const add = (chosen: FileList | File[]) => {
    const made = [...chosen].slice(0, MOST - files.length).map((file): Attached => {
      const key = next.current++;
      const done = crypto.subtle
        ? upload(file).catch((error) => { change(key, { problem: messageOf(error) }); return null; })
        : Promise.resolve(null);
      // As data, because the page may load nothing from other addresses.
      if (file.type.startsWith("image/") && file.size < MOST_SHOWN_BYTES) void dataOf(file).then((picture) => change(key, { picture }), () => {});
      return { key, name: file.name, size: file.size, picture: "", problem: crypto.subtle ? "" : t("Files can be attached only over HTTPS or on this machine."), done };
    });
    setFiles([...files, ...made]);
  };
  return {
    files, add,
    remove: (key) => setFiles((all) => all.filter((each) => each.key !== key)),
    ready: async () => {
      const sent = (await Promise.all(files.map((each) => each.done))).filter((each) => each !== null);
      if (sent.length < files.length) throw new Error(t("A file could not be uploaded. Remove it, then send again."));
      return sent;
    },
    clear: () => setFiles([]),
  };
}

function dataOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

export function AttachButton({ add }: { add: Attaching["add"] }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={field} type="file" multiple hidden aria-hidden="true" tabIndex={-1}
        onChange={(event) => { add(event.currentTarget.files!); event.currentTarget.value = ""; }}
      />
      <button type="button" class="quiet round" aria-label={t("Attach files")} title={t("Attach files")} onClick={() => field.current!.click()}><Icon name="clip" /></button>
    </>
  );
}

export function AttachedFiles({ files, remove }: { files: Attached[]; remove: (key: number) => void }) {
  if (!files.length) return null;
  return (
    <ul class="files" aria-label={t("Attached files")}>
      {files.map((each) => (
        <li key={each.key} class={each.problem ? "problem" : ""}>
          {each.picture ? <img src={each.picture} alt="" /> : <Icon name="clip" />}
          <span>{each.name}</span><span class={each.problem ? "" : "meta"}>{each.problem || `${Math.max(1, Math.round(each.size / 1000))} kB`}</span>
          <button type="button" class="quiet" aria-label={`${t("Remove")}: ${each.name}`} onClick={() => remove(each.key)}><Icon name="close" /></button>
        </li>
      ))}
    </ul>
  );
}
