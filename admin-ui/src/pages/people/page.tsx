import { useLocation, useNavigate, useSearch } from "@tanstack/react-router";

import { useMay } from "../../app/session.ts";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { words } from "../../words/people.ts";
import { Audit } from "./audit.tsx";
import { Keys } from "./keys.tsx";
import { type Search, TABS } from "./search.ts";
import { Sessions } from "./sessions.tsx";
import { Users } from "./users.tsx";

/** `/people`, and `/audit` for its last tab. */
export default function PeoplePage() {
  const search: Search = useSearch({ strict: false });
  const path = useLocation({ select: ({ pathname }) => pathname });
  const navigate = useNavigate();
  const readsAudit = useMay("audit.read");
  const current = search.tab ?? (path === "/audit" ? "audit" : "users");
  const change = (changed: Search) =>
    void navigate({
      to: "/people",
      search: { ...search, tab: current, ...changed },
      replace: true,
    });
  return (
    <Page title={words.title}>
      <Tabs
        label={words.title}
        tabs={TABS.filter((id) => id !== "audit" || readsAudit).map((id) => ({
          id,
          label: words.tabs[id],
        }))}
        current={current}
        onChange={(tab) => void navigate({ to: "/people", search: { tab } })}
      >
        {current === "users" && <Users sort={search.sort} onSort={(sort) => change({ sort })} />}
        {current === "sessions" && <Sessions />}
        {current === "keys" && <Keys />}
        {current === "audit" && <Audit search={search} onChange={change} />}
      </Tabs>
    </Page>
  );
}
