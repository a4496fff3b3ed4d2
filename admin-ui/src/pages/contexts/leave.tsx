// Leaving the page with a draft that is not published: it is kept, but nobody should believe that it
// is in force.
import { useBlocker } from "@tanstack/react-router";

import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { words } from "../../words/contexts.ts";
import type { Draft } from "./draft.ts";

export interface LeaveDialogProps {
  draft: Draft;
  id: string;
  changed: boolean;
  onLeave: () => void;
  onDiscard: () => Promise<void>;
}

export function LeaveDialog({ draft, id, changed, onLeave, onDiscard }: LeaveDialogProps) {
  const blocker = useBlocker({
    shouldBlockFn: async ({ next }) => {
      if (draft.closed) return false;
      const { draft: taken, tab }: Record<string, unknown> = { ...next.search };
      const stays = next.pathname.startsWith("/contexts") && tab !== "versions";
      if (stays && (taken === id || !changed)) return false; // another part
      await draft.settle();
      const { text, original } = draft.state();
      // To be tried, it goes along, if the engine has all of it.
      return !draft.closed && (isUnsaved(draft) || (text !== original && taken !== id));
    },
    // The browser asks by itself when the tab is closed; only what is not saved yet would be lost.
    enableBeforeUnload: () => isUnsaved(draft),
    withResolver: true,
  });
  if (blocker.status !== "blocked") return null;
  const leave = () => {
    blocker.proceed();
    onLeave();
  };
  const saved = isUnsaved(draft) ? words.draft.leaveUnsaved : words.draft.leaveAbout;
  return (
    <Dialog title={words.draft.leaveTitle} about={saved} onClose={blocker.reset}>
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={blocker.reset}>{words.draft.stay}</Button>
        <Button
          look="danger"
          onClick={async () => {
            await onDiscard();
            leave();
          }}
        >
          {words.draft.discardAndLeave}
        </Button>
        <Button look="primary" autoFocus onClick={leave}>
          {words.draft.leave}
        </Button>
      </div>
    </Dialog>
  );
}

function isUnsaved(draft: Draft): boolean {
  const { saved, pending } = draft.state();
  return pending || saved !== "saved";
}
