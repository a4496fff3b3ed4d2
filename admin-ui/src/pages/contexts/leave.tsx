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
    shouldBlockFn: ({ next }) => {
      const { draft: taken }: Record<string, unknown> = { ...next.search };
      return changed && !draft.closed && taken !== id; // to try it, or to another part, it goes along
    },
    // The browser asks by itself when the tab is closed; only what is not saved yet would be lost.
    enableBeforeUnload: () => draft.state().saved !== "saved",
    withResolver: true,
  });
  if (blocker.status !== "blocked") return null;
  const leave = () => {
    blocker.proceed();
    onLeave();
  };
  const saved =
    draft.state().saved === "failed" ? words.draft.leaveUnsaved : words.draft.leaveAbout;
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
