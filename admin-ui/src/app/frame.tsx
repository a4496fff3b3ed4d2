// What stands around every page: who is signed in, the navigation, and the top bar.
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate, useRouter } from "@tanstack/react-router";
import {
  lazy,
  Suspense,
  useCallback,
  useEffect,
  useEffectEvent,
  useLayoutEffect,
  useState,
} from "react";

import { Empty, Loading, Problem } from "../parts/answer.tsx";
import { IconButton, LinkButton } from "../parts/button.tsx";
import { cx } from "../parts/cx.ts";
import { Icon } from "../parts/icons.tsx";
import { words } from "../words/shell.ts";
import { type Schema, useGet } from "./api.ts";
import { ElevationProvider } from "./elevation.tsx";
import { LiveProvider } from "./live.ts";
import { type Entry, NAVIGATION } from "./navigation.ts";
import { usePages } from "./pages.ts";
import { type Me, SessionContext } from "./session.ts";
import { ShortcutsProvider, useShortcut, useShortcuts } from "./shortcuts.tsx";
import { TopBar } from "./top-bar.tsx";

const SignInPage = lazy(() => import("../pages/sign-in/page.tsx"));

/**
 * The root of all routes: the sign-in, or the page of the address in its frame. If a session ends,
 * the page stays behind the sign-in with what is not saved yet, and is there again for the same
 * person.
 */
export function Frame() {
  const session = useGet("/api/v1/session", {}, { staleTime: 60_000 });
  const queries = useQueryClient();
  const link = useLocation({ select: ({ hash }) => hash.startsWith("link=") });
  const me = session.data;
  // Whose page it is. Nothing of one person's answers is left for the next one in the same browser.
  const [owner, setOwner] = useState<Me>();
  useLayoutEffect(() => {
    if (me === owner || me?.signed_in === false) return;
    if (me?.name !== owner?.name)
      queries.removeQueries({ predicate: ({ queryKey }) => !isSession(queryKey) });
    setOwner(me && whole(me));
  }, [me, owner, queries]);
  if (me === undefined) {
    return session.error ? (
      <Problem error={session.error} onRetry={() => void session.refetch()} />
    ) : (
      <Loading> </Loading>
    );
  }
  const { signed_in: signedIn } = me;
  const isOwners = owner !== undefined && !link && (!signedIn || me.name === owner.name);
  return (
    <>
      {isOwners && (
        <SessionContext value={owner}>
          <LiveProvider key={owner.name} signedIn={signedIn}>
            <ElevationProvider>
              <ShortcutsProvider>
                <Layout />
              </ShortcutsProvider>
            </ElevationProvider>
          </LiveProvider>
        </SessionContext>
      )}
      {(!signedIn || link) && (
        <Suspense fallback={!isOwners && <Loading> </Loading>}>
          <SignInPage session={me} isAbove={isOwners} />
        </Suspense>
      )}
    </>
  );
}

const isSession = (key: readonly unknown[]) => key[0] === "/api/v1/session";

// The engine leaves no field out; the schema calls those with a default optional.
const whole = (me: Schema<"Me">) => me as Me;

const Palette = lazy(() => import("./palette.tsx"));
const ShortcutList = lazy(() => import("./shortcut-list.tsx"));

function Layout() {
  const [open, setOpen] = useState(false);
  const [dialog, setDialog] = useState<"palette" | "shortcuts" | null>(null);
  const closeDialog = useCallback(() => setDialog(null), []);
  useFrameKeys(setDialog);
  useFocusOfNewPage();
  const path = useLocation({ select: ({ pathname }) => pathname });
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes the drawer
  useEffect(() => setOpen(false), [path]);
  return (
    <div className="grid h-full grid-cols-[12.5rem_minmax(0,1fr)] grid-rows-[auto_minmax(0,1fr)] phone:grid-cols-[minmax(0,1fr)]">
      <a
        href="#content"
        className="absolute -top-12 left-2 z-50 rounded-md bg-accent px-3 py-2 text-on-accent focus:top-2"
      >
        {words.skip}
      </a>
      <Navigation open={open} onClose={() => setOpen(false)} />
      <TopBar
        onNavigation={() => setOpen(true)}
        onSearch={() => setDialog("palette")}
        onShortcuts={() => setDialog("shortcuts")}
      />
      <main id="content" tabIndex={-1} className="min-h-0 overflow-y-auto outline-none">
        <Outlet />
      </main>
      <Suspense>
        {dialog === "palette" && <Palette onClose={closeDialog} />}
        {dialog === "shortcuts" && <ShortcutList onClose={closeDialog} />}
      </Suspense>
    </div>
  );
}

/**
 * After a way to another page the focus is on its heading, so that a screen reader says it; but not
 * where it is in the page already. The first page leaves it to the browser: Tab reaches the skip link.
 */
function useFocusOfNewPage(): void {
  const router = useRouter();
  useEffect(
    () =>
      router.subscribe("onRendered", ({ fromLocation, pathChanged }) => {
        const content = document.getElementById("content");
        if (!fromLocation || !pathChanged || content === null) return;
        if (document.activeElement !== content && content.contains(document.activeElement)) return;
        (content.querySelector("h1") ?? content).focus({ preventScroll: true });
      }),
    [router],
  );
}

/** The keys that work on every page. */
function useFrameKeys(open: (dialog: "palette" | "shortcuts") => void): void {
  const navigate = useNavigate();
  const { add } = useShortcuts();
  useEffect(() => {
    const ended = NAVIGATION.map(({ to, letter, name }) =>
      add({ keys: `g ${letter}`, about: words.shortcuts.goTo(name) }, () => void navigate({ to })),
    );
    return () => {
      for (const end of ended) end();
    };
  }, [add, navigate]);
  useShortcut("?", words.shortcuts.list, () => open("shortcuts"));
  useShortcut("j", words.shortcuts.focusRows, () => {
    document.querySelector<HTMLElement>("[data-list] [data-index][tabindex='0']")?.focus();
  });
  const onControlK = useEffectEvent((event: KeyboardEvent) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (document.querySelector("[data-cover]")) return; // the palette would open below the sign-in
    open("palette");
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => onControlK(event);
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}

function Navigation({ open, onClose }: { open: boolean; onClose: () => void }) {
  const shown = usePages();
  useEffect(() => {
    if (!open) return;
    const onKey = (event: KeyboardEvent) => event.key === "Escape" && onClose();
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [open, onClose]);
  return (
    <>
      {open && (
        <button
          type="button"
          tabIndex={-1}
          aria-hidden="true"
          className="fixed inset-0 z-20 hidden bg-shade phone:block"
          onClick={onClose}
        />
      )}
      <nav
        aria-label={words.navigation}
        className={cx(
          "row-span-2 flex flex-col gap-0.5 overflow-y-auto border-r border-line bg-surface px-2 pb-3",
          "phone:fixed phone:inset-y-0 phone:left-0 phone:z-30 phone:w-64 phone:bg-raised phone:shadow-high",
          !open && "phone:hidden",
        )}
      >
        <div className="flex h-12 shrink-0 items-center justify-between px-2">
          <Link to="/live" className="flex items-center gap-2 text-base font-semibold">
            <img src="/icon.svg" alt="" width={20} height={20} />
            {words.product}
          </Link>
          {open && <IconButton label={words.closeNavigation} icon="close" onClick={onClose} />}
        </div>
        {shown.filter(({ lower }) => !lower).map(entry)}
        <div className="mt-auto" />
        {shown.filter(({ lower }) => lower).map(entry)}
      </nav>
    </>
  );
}

const entry = ({ to, name, icon }: Entry) => (
  <Link
    key={to}
    to={to}
    className="flex h-8 shrink-0 items-center gap-2.5 rounded-md px-2 text-muted hover:bg-hover hover:text-ink"
    activeProps={{ className: "bg-hover !text-ink font-medium", "aria-current": "page" }}
  >
    <Icon name={icon} />
    {name}
  </Link>
);

export function NotFound() {
  return (
    <Empty icon="search" title={words.notFound}>
      <LinkButton to="/live">{words.toLive}</LinkButton>
    </Empty>
  );
}
