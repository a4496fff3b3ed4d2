// All routes. A page's code is loaded when it is opened; its search parameters are read here, so that
// links to it are checked by the compiler.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";

import { search as alarms } from "../pages/alarms/search.ts";
import { search as call } from "../pages/call/search.ts";
import { search as calls } from "../pages/calls/search.ts";
import { search as contexts } from "../pages/contexts/search.ts";
import { search as engine } from "../pages/engine/search.ts";
import { search as insights } from "../pages/insights/search.ts";
import { search as live } from "../pages/live/search.ts";
import { search as outbound } from "../pages/outbound/search.ts";
import { search as people } from "../pages/people/search.ts";
import { search as providers } from "../pages/providers/search.ts";
import { search as settings } from "../pages/settings/search.ts";
import { search as setup } from "../pages/setup/search.ts";
import { search as tools } from "../pages/tools/search.ts";
import { search as trials } from "../pages/try/search.ts";
import { Frame, NotFound } from "./frame.tsx";
import { parseSearch, stringifySearch } from "./search.ts";

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound });
const getParentRoute = () => root;

const contextsPage = lazyRouteComponent(() => import("../pages/contexts/page.tsx"));
const peoplePage = lazyRouteComponent(() => import("../pages/people/page.tsx"));
const toolsPage = lazyRouteComponent(() => import("../pages/tools/page.tsx"));

const routes = [
  createRoute({
    getParentRoute,
    path: "/",
    beforeLoad: ({ location }) => {
      // The one-time link of a new user is `/#link=…`.
      if (!location.hash) throw redirect({ to: "/live" });
    },
  }),
  createRoute({
    getParentRoute,
    path: "/setup",
    validateSearch: setup,
    component: lazyRouteComponent(() => import("../pages/setup/page.tsx")),
  }),
  createRoute({
    getParentRoute,
    path: "/live",
    validateSearch: live,
    component: lazyRouteComponent(() => import("../pages/live/page.tsx")),
  }),
  createRoute({
    getParentRoute,
    path: "/calls",
    validateSearch: calls,
    component: lazyRouteComponent(() => import("../pages/calls/page.tsx")),
  }),
  createRoute({
    getParentRoute,
    path: "/calls/$callId",
    validateSearch: call,
    component: lazyRouteComponent(() => import("../pages/call/page.tsx")),
  }),
  createRoute({
    getParentRoute,
    path: "/outbound",
    validateSearch: outbound,
    component: lazyRouteComponent(() => import("../pages/outbound/page.tsx")),
  }),
  createRoute({
    getParentRoute,
    path: "/contexts",
    validateSearch: contexts,
    component: contextsPage,
  }),
  createRoute({
    getParentRoute,
    path: "/contexts/$context",
    validateSearch: contexts,
    component: contextsPage,
  }),
  createRoute({
    getParentRoute,
    path: "/try",
    validateSearch: trials,
    component: lazyRouteComponent(() => import("../pages/try/page.tsx")),
  }),
  createRoute({ getParentRoute, path: "/tools", validateSearch: tools, component: toolsPage }),
  createRoute({
    getParentRoute,
    path: "/tools/$tool",
    validateSearch: tools,
    component: toolsPage,
  }),
  createRoute({ getParentRoute, path: "/mcp", validateSearch: tools, component: toolsPage }),
  createRoute({
    getParentRoute,
    path: "/providers",
    validateSearch: providers,
    component: lazyRouteComponent(() => import("../pages/providers/page.tsx")),
  }),
  createRoute({
    getParentRoute,
    path: "/insights",
    validateSearch: insights,
    component: lazyRouteComponent(() => import("../pages/insights/page.tsx")),
  }),
  createRoute({
    getParentRoute,
    path: "/alarms",
    validateSearch: alarms,
    component: lazyRouteComponent(() => import("../pages/alarms/page.tsx")),
  }),
  createRoute({
    getParentRoute,
    path: "/engine",
    validateSearch: engine,
    component: lazyRouteComponent(() => import("../pages/engine/page.tsx")),
  }),
  createRoute({
    getParentRoute,
    path: "/cluster",
    component: lazyRouteComponent(() => import("../pages/cluster/page.tsx")),
  }),
  createRoute({ getParentRoute, path: "/people", validateSearch: people, component: peoplePage }),
  createRoute({ getParentRoute, path: "/audit", validateSearch: people, component: peoplePage }),
  createRoute({
    getParentRoute,
    path: "/settings",
    validateSearch: settings,
    component: lazyRouteComponent(() => import("../pages/settings/page.tsx")),
  }),
] as const;

export const router = createRouter({
  routeTree: root.addChildren(routes),
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
