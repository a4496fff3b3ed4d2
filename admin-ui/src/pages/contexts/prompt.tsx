// The prompt editor: a large text area whose placeholders are completed.
import { useEffect, useRef, useState } from "react";

import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { words } from "../../words/contexts.ts";
import { promptEditor } from "./editor.ts";
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
  const { name, text, placeholders, readOnly, onText, onClose } = props;
  const place = useRef<HTMLDivElement>(null);
  const [begin] = useState({ text, placeholders });
  const [now, setNow] = useState(text);
  useEffect(() => {
    if (!place.current) return;
    return promptEditor(place.current, {
      ...begin,
      label: words.promptTitle(name),
      readOnly,
      onText: setNow,
    });
  }, [begin, name, readOnly]);
  const close = () => {
    if (now !== text) onText(now);
    onClose();
  };
  return (
    <Dialog title={words.promptTitle(name)} about={words.promptAbout} wide onClose={close}>
      <div ref={place} className="h-[52vh] overflow-hidden rounded-md border border-strong text-base" />
      <div className="mt-3 flex items-center justify-between gap-3">
        <span className="text-muted" title={words.tokensHint}>
          {words.tokens(estimatedTokens(now))}
        </span>
        <Button look="primary" onClick={close}>
          {words.done}
        </Button>
      </div>
    </Dialog>
  );
}
