import { useState } from "react";

import { useShortcuts } from "../../app/shortcuts.tsx";
import { chooseTheme, chosenTheme, THEMES } from "../../app/theme.ts";
import { Field, Select, Switch } from "../../parts/field.tsx";
import { Section } from "../../parts/page.tsx";
import { words } from "../../words/settings.ts";

/** What is kept in this browser alone. */
export function BrowserSettings() {
  const [theme, setTheme] = useState(chosenTheme);
  const { on, switchOn } = useShortcuts();
  return (
    <>
      <Section title={words.look}>
        <div className="grid max-w-xs gap-4">
          <Field label={words.theme}>
            <Select
              value={theme}
              onValue={(next) => {
                chooseTheme(next);
                setTheme(next);
              }}
              options={THEMES.map((value) => ({ value, label: words.themes[value] }))}
            />
          </Field>
        </div>
      </Section>
      <Section title={words.keyboard}>
        <Switch
          label={words.shortcuts}
          hint={words.shortcutsHint}
          checked={on}
          onChecked={switchOn}
        />
      </Section>
      <Section title={words.zone}>
        <p>{words.zoneAbout(Intl.DateTimeFormat().resolvedOptions().timeZone)}</p>
      </Section>
    </>
  );
}
