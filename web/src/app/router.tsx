/** Every page and its address. Pages are loaded when they are first visited. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  retainSearchParams,
} from "@tanstack/react-router";
import { Failed } from "../ui/state";
import { Lost } from "./lost";
import { parseSearch, pick, stringifySearch } from "./search";
import { Shell } from "./shell";

const root = createRootRoute({
  component: Outlet,
  notFoundComponent: Lost,
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: (search) => pick(search, "next"),
  component: lazyRouteComponent(() => import("../session/sign-in-route")),
});

const shell = createRoute({
  getParentRoute: () => root,
  id: "shell",
  validateSearch: (search) => pick(search, "domain"),
  search: { middlewares: [retainSearchParams(["domain"])] },
  component: Shell,
});

const parent = () => shell;

const overview = createRoute({
  getParentRoute: parent,
  path: "/",
  validateSearch: (search) => pick(search, "range", "from", "to", "rule", "tier", "by", "subject"),
  component: lazyRouteComponent(() => import("../overview/page")),
});

const rules = createRoute({
  getParentRoute: parent,
  path: "/rules",
  validateSearch: (search) => pick(search, "q"),
  component: lazyRouteComponent(() => import("../rules/list")),
});

const newRule = createRoute({
  getParentRoute: parent,
  path: "/rules/new",
  component: lazyRouteComponent(() => import("../rules/create")),
});

const rule = createRoute({
  getParentRoute: parent,
  // The name is in the search part: a name may hold dots and colons, which servers and proxies treat in their own ways in paths.
  path: "/rules/edit",
  validateSearch: (search) => pick(search, "name"),
  component: lazyRouteComponent(() => import("../rules/edit")),
});

const tiers = createRoute({
  getParentRoute: parent,
  path: "/tiers",
  component: lazyRouteComponent(() => import("../tiers/page")),
});

const agents = createRoute({
  getParentRoute: parent,
  path: "/agents",
  component: lazyRouteComponent(() => import("../agents/page")),
});

const shards = createRoute({
  getParentRoute: parent,
  path: "/shards",
  component: lazyRouteComponent(() => import("../shards/page")),
});

const alerts = createRoute({
  getParentRoute: parent,
  path: "/alerts",
  component: lazyRouteComponent(() => import("../alerts/page")),
});

const revisions = createRoute({
  getParentRoute: parent,
  path: "/revisions",
  component: lazyRouteComponent(() => import("../revisions/page")),
});

const audit = createRoute({
  getParentRoute: parent,
  path: "/audit",
  validateSearch: (search) => pick(search, "kind", "name"),
  component: lazyRouteComponent(() => import("../audit/page")),
});

const tokens = createRoute({
  getParentRoute: parent,
  path: "/tokens",
  component: lazyRouteComponent(() => import("../tokens/page")),
});

const pages = [overview, rules, newRule, rule, tiers, agents, shards, alerts, revisions, audit, tokens];

export const router = createRouter({
  routeTree: root.addChildren([signIn, shell.addChildren(pages)]),
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  defaultErrorComponent: ({ error, reset }) => <Failed error={error} retry={reset} />,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
