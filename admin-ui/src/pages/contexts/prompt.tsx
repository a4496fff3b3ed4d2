// The prompt editor: a large text area whose placeholders are completed.
import { useEffect, useRef, useState } from "react";

import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { words } from "../../words/contexts.ts";
import { promptEditor } from "./editor.ts";
import { useTyped } from "./fields.tsx";
import { estimatedTokens } from "./tokens.ts";

export interface PromptDialogProps {
  name: string;
  text: string;
  placeholders: ReadonlyMap<string, string>;
  readOnly: boolean;
  onText: (text: string) => void;
  onClose: () => void;
}

export function PromptDialog(props: PromptDialogProps) {
  const { name, text, onText, onClose } = props;
  const typed = useTyped(text, onText);
  const close = () => {
    typed.commit();
    onClose();
  };
  return (
    <Dialog title={words.promptTitle(name)} about={words.promptAbout} wide onClose={close}>
      <PromptText {...props} onText={typed.change} />
      <div className="mt-3 flex items-center justify-between gap-3">
        <span className="text-muted" title={words.tokensHint}>
          {words.tokens(estimatedTokens(typed.value))}
        </span>
        <Button look="primary" onClick={close}>
          {words.done}
        </Button>
      </div>
    </Dialog>
  );
}

/** The editor. A component inside of the dialog, which renders its content later than itself. */
function PromptText({
  name,
  text,
  placeholders,
  readOnly,
  onText,
}: Omit<PromptDialogProps, "onClose">) {
  const place = useRef<HTMLDivElement>(null);
  const [begin] = useState({
    text,
    placeholders,
    readOnly,
    label: words.promptTitle(name),
    onText,
  });
  useEffect(() => {
    if (place.current) return promptEditor(place.current, begin);
  }, [begin]);
  return (
    <div
      ref={place}
      className="h-[52vh] overflow-hidden rounded-md border border-strong text-base"
    />
  );
}
