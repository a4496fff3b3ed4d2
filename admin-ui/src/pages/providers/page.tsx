// Providers, their voices, prices and secrets.
import { useMay } from "../../app/session.ts";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { words } from "../../words/providers.ts";
import { useChoices } from "./choices.ts";
import { Prices } from "./prices.tsx";
import { ProviderList } from "./provider-list.tsx";
import { TABS, type Tab } from "./search.ts";
import { Secrets } from "./secrets.tsx";
import { Voices } from "./voices.tsx";

export default function ProvidersPage() {
  const [{ tab = "providers" }, change] = useChoices();
  const mayList = useMay("secrets.list");
  const shown = TABS.filter((id) => id !== "secrets" || mayList);
  return (
    <Page title={words.title}>
      <Tabs<Tab>
        label={words.title}
        tabs={shown.map((id) => ({ id, label: words.tabs[id] }))}
        current={tab}
        onChange={(next) => change({ tab: next, sort: undefined })}
      >
        {tab === "providers" && <ProviderList />}
        {tab === "voices" && <Voices />}
        {tab === "prices" && <Prices />}
        {tab === "secrets" && <Secrets />}
      </Tabs>
    </Page>
  );
}
