import { Kbd } from "../parts/badge.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Switch } from "../parts/field.tsx";
import { words } from "../words/shell.ts";
import { useShortcuts } from "./shortcuts.tsx";

/** The shortcuts of the page that is shown, and the switch for single keys. */
export default function ShortcutList({ onClose }: { onClose: () => void }) {
  const { known, on, switchOn } = useShortcuts();
  return (
    <Dialog title={words.shortcuts.title} onClose={onClose} light>
      <Switch label={words.shortcuts.single} checked={on} onChecked={switchOn} />
      <dl className="mt-3 grid grid-cols-[auto_minmax(0,1fr)] items-center gap-x-4 gap-y-1.5">
        {[words.shortcuts.palette, words.shortcuts.rows, ...known()].map(({ keys, about }) => (
          <div key={keys} className="col-span-2 grid grid-cols-subgrid">
            <dt className="flex gap-1">
              {keys.split(" ").map((key) => (
                <Kbd key={key}>{words.shortcuts.names[key] ?? key}</Kbd>
              ))}
            </dt>
            <dd>{about}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
