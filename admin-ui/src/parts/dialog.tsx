import { AlertDialog, Dialog as Radix } from "radix-ui";
import { type ReactNode, useState } from "react";

import { words } from "../words/parts.ts";
import { Button, IconButton } from "./button.tsx";
import { cx } from "./cx.ts";

const DIALOGS = "[role=dialog], [role=alertdialog]";
const INSIDE = `${DIALOGS}, [role=menu]`;
const SHADE = "fixed inset-0 z-40 bg-shade";
const BOX =
  "fixed top-[12vh] left-1/2 z-40 max-h-[80vh] w-[calc(100vw-2rem)] -translate-x-1/2 overflow-y-auto rounded-lg border border-line bg-raised p-4 shadow-high focus:outline-none";

export interface DialogProps {
  title: string;
  about?: ReactNode;
  wide?: boolean;
  /** A click beside it closes it. Not where something is filled in, or shown once. */
  light?: boolean;
  onClose: () => void;
  children: ReactNode;
}

// The last thing of the page itself that had the focus. Where a dialog follows another one, the thing
// that had it when the dialog opened is gone.
let lastOfPage: HTMLElement | null = null;
document.addEventListener("focusin", ({ target }) => {
  const isOfPage = target instanceof HTMLElement && !target.closest(INSIDE);
  if (isOfPage) lastOfPage = target;
});

/** Gives the focus back as a dialog closes. Radix does so for triggers only, and ours have none. */
function giveFocusBack(event: Event) {
  event.preventDefault();
  if (document.activeElement?.closest(INSIDE)) return; // of the dialog that follows
  const stillOpen = document.querySelector<HTMLElement>(DIALOGS);
  (stillOpen ?? lastOfPage)?.focus();
}

/** Open as long as it is rendered. The focus goes in, stays in, and goes back afterwards. */
export function Dialog(props: DialogProps) {
  const { title, about, wide = false, light = false, onClose, children } = props;
  return (
    <Radix.Root open onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className={SHADE} />
        <Radix.Content
          className={cx(BOX, wide ? "max-w-3xl" : "max-w-md")}
          onCloseAutoFocus={giveFocusBack}
          onInteractOutside={(event) => !light && event.preventDefault()}
          {...(about ? {} : { "aria-describedby": undefined })}
        >
          <div className="mb-3 pr-8">
            <Radix.Title className="text-lg">{title}</Radix.Title>
            {about && <Radix.Description className="mt-0.5 text-muted">{about}</Radix.Description>}
          </div>
          {children}
          {/* The last one, so that the content has the focus first. */}
          <span className="absolute top-4 right-4">
            <IconButton label={words.close} icon="close" small onClick={onClose} />
          </span>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** Covers the whole page, which is neither seen nor reached, and stays as long as it is rendered. */
export function Cover(props: { title: string; about: ReactNode; children: ReactNode }) {
  return (
    <Radix.Root open>
      <Radix.Portal>
        <Radix.Content
          data-cover
          className="fixed inset-0 z-50 overflow-y-auto bg-surface focus:outline-none"
          onCloseAutoFocus={giveFocusBack}
        >
          <div className="mx-auto grid min-h-full max-w-88 content-center gap-5 px-4 py-12">
            <img src="/icon.svg" alt="" width={40} height={40} />
            <Radix.Title className="text-xl">{props.title}</Radix.Title>
            <Radix.Description>{props.about}</Radix.Description>
            {props.children}
          </div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

export interface ConfirmProps {
  title: string;
  /** The consequences. */
  about: ReactNode;
  /** Such as "End call". */
  confirm: string;
  danger?: boolean;
  /** A word that has to be typed first, for what cannot be undone. */
  type?: string;
  busy?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

/** Asks before an act. The way back has the focus. */
export function Confirm(props: ConfirmProps) {
  const { title, about, confirm, danger = false, type, busy = false, onConfirm, onClose } = props;
  const [typed, setTyped] = useState("");
  return (
    <AlertDialog.Root open onOpenChange={(open) => !open && onClose()}>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className={SHADE} />
        <AlertDialog.Content className={cx(BOX, "max-w-md")} onCloseAutoFocus={giveFocusBack}>
          <AlertDialog.Title className="text-lg">{title}</AlertDialog.Title>
          <AlertDialog.Description asChild>
            <div className="mt-1 text-muted">{about}</div>
          </AlertDialog.Description>
          {type !== undefined && (
            <label className="mt-3 block">
              <span className="text-muted">{words.typeToConfirm(type)}</span>
              <input
                className="mt-1 h-8 w-full rounded-md border border-strong bg-surface px-2"
                value={typed}
                onChange={(event) => setTyped(event.target.value)}
                autoComplete="off"
              />
            </label>
          )}
          <div className="mt-4 flex justify-end gap-2">
            <AlertDialog.Cancel asChild>
              <Button>{words.cancel}</Button>
            </AlertDialog.Cancel>
            <Button
              look={danger ? "danger" : "primary"}
              busy={busy}
              disabled={type !== undefined && typed !== type}
              onClick={onConfirm}
            >
              {confirm}
            </Button>
          </div>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
