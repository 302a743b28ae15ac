import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { t } from "./i18n";
import { Icon } from "./icons";

export function Dialog(props: { title: string; close: () => void; children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => { box.current?.showModal(); }, []);
  return (
    <dialog ref={box} aria-label={props.title} onClose={props.close} onClick={(event) => event.target === box.current && box.current?.close()}>
      <div class="inside">
        <header class="bar">
          <h2>{props.title}</h2>
          <button class="quiet" aria-label={t("Close")} onClick={() => box.current?.close()}><Icon name="close" /></button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}
