import { getRouteApi } from "@tanstack/react-router";

import { useMay } from "../../app/session.ts";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { words } from "../../words/settings.ts";
import { About } from "./about.tsx";
import { BrowserSettings } from "./browser-settings.tsx";
import { DataSettings } from "./data-settings.tsx";
import { Profile } from "./profile.tsx";
import { TABS } from "./search.ts";

const route = getRouteApi("/settings");

export default function SettingsPage() {
  const { tab = "profile" } = route.useSearch();
  const navigate = route.useNavigate();
  const mayRead = useMay("config.read");
  return (
    <Page title={words.title}>
      <Tabs
        label={words.title}
        tabs={TABS.filter((id) => id !== "data" || mayRead).map((id) => ({
          id,
          label: words.tabs[id],
        }))}
        current={tab}
        onChange={(next) => void navigate({ search: { tab: next } })}
      >
        <div className="max-w-3xl">
          {tab === "profile" && <Profile />}
          {tab === "browser" && <BrowserSettings />}
          {tab === "data" && <DataSettings />}
          {tab === "about" && <About />}
        </div>
      </Tabs>
    </Page>
  );
}
