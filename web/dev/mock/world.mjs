/** A made-up control plane: believable rules, agents and traffic, without a server behind them. Only for looking at the dashboard. */

const MINUTE = 60_000;

export const HOSTILE = [
  "user:x');alert(1)//",
  "user:<img src=x onerror=alert(1)>",
  "user:</script ><script>alert(1)</script>",
  "user:\u202Egnp.exe",
  `user:${"long".repeat(250)}`,
  '=cmd|"/c calc"!A1',
];

/** `scenario`: `busy`, `empty` (nothing set up yet) or `trouble` (refused revision, shard away, alert firing). */
export function makeWorld(scenario) {
  const empty = scenario === "empty";
  const world = {
    scenario,
    revision: empty ? 0 : 12,
    lists: {
      domains: [domain("default"), ...(empty ? [] : [domain("partners", "shadow")])],
      tiers: empty ? [] : tiers(),
      rules: empty ? [] : rules(),
      shards: empty ? [] : ["s1", "s2", "s3"].map(shard),
      alerts: empty ? [] : alerts(scenario),
      tokens: tokens(),
    },
    agents: empty ? [] : agents(scenario),
    audit: empty ? [] : audit(),
    revisions: empty ? [] : revisions(),
  };
  return world;
}

export function meta(revision = 3, by = "ada", ageMinutes = 300) {
  const at = new Date(Date.now() - ageMinutes * MINUTE).toISOString();
  return { domain: "default", etag: `"${revision}-${by}"`, created_at: at, updated_at: at, updated_by: by, revision };
}

function domain(name, mode = "enforce") {
  return {
    name,
    mode,
    defaults: { algorithm: "token_bucket", on_failure: { mode: "local", generosity: 1 } },
    meta: meta(),
  };
}

function tiers() {
  return [
    { name: "free", description: "Everyone who has not paid yet", default: true, meta: meta(1, "ada", 9_000) },
    { name: "paid", description: "Monthly plans", meta: meta(1, "ada", 9_000) },
    { name: "enterprise", description: "By contract; mostly without limits", meta: meta(7, "grace", 1_300) },
  ];
}

function rules() {
  const each = (limit, window) => ({ "*": { limit, window } });
  return [
    {
      name: "per-user",
      description: "The plan itself: what a subject may do in all.",
      match: { path: "/**" },
      key: ["subject"],
      limits: {
        free: { limit: 100, window: "1m", burst: 100 },
        paid: { limit: 1000, window: "1m" },
        enterprise: { unlimited: true },
        "*": { limit: 100, window: "1m" },
      },
      on_failure: { mode: "local", generosity: 1, escalate: { after: "5s", to: "closed" } },
      mode: "enforce",
      meta: meta(12, "ada", 8),
    },
    {
      name: "search",
      description: "Search is expensive",
      match: { methods: ["GET"], path: "/api/search" },
      key: ["subject", "route"],
      algorithm: "sliding_window",
      limits: each(50, "1m"),
      mode: "enforce",
      meta: meta(2),
    },
    {
      name: "upload",
      match: { methods: ["POST"], path: "/api/upload" },
      key: ["subject", "route"],
      algorithm: "sliding_window",
      limits: each(5, "1m"),
      mode: "enforce",
      enforce_percent: 25,
      meta: meta(4),
    },
    {
      name: "login-by-ip",
      description: "Guessing passwords from one address",
      match: { methods: ["POST"], hosts: ["login.example.com"], path: "/login" },
      key: ["ip"],
      algorithm: "fixed_window",
      limits: each(20, "15m"),
      on_failure: { mode: "closed", generosity: 1 },
      mode: "enforce",
      meta: meta(9, "grace"),
    },
    {
      name: "exports-daily",
      match: {
        path: "/api/exports/{id}/**",
        headers: [
          { name: "x-plan", exact: "team" },
          { name: "x-beta", present: true },
        ],
      },
      key: ["subject", "param:id"],
      algorithm: "fixed_window",
      limits: {
        free: { limit: 0, window: "1d" },
        "*": { limit: 2000, calendar: "day", time_zone: "Europe/Zurich" },
      },
      mode: "shadow",
      group: "exports",
      priority: 10,
      cost_header: "x-rows",
      meta: meta(11, "grace"),
    },
    {
      name: "render-jobs",
      description: "Rendering takes a worker for as long as it lasts",
      match: { methods: ["POST"], path: "/api/render" },
      key: ["subject"],
      algorithm: "concurrency",
      limits: { paid: { limit: 8, window: "2m" }, "*": { limit: 2, window: "2m" } },
      mode: "enforce",
      meta: meta(6, "grace"),
    },
    {
      name: "partner-feed",
      match: { hosts: ["*.partners.example.com"] },
      key: [],
      limits: each(250000, "1h"),
      mode: "off",
      meta: meta(5),
    },
  ];
}

function shard(name, index) {
  return {
    name,
    address: `redis://10.0.4.1${index}:6379`,
    weight: index === 2 ? 2 : 1,
    has_password: true,
    username: "weir",
    meta: meta(1),
  };
}

function alerts(scenario) {
  const firing = scenario === "trouble";
  const since = firing ? new Date(Date.now() - 11 * MINUTE).toISOString() : null;
  return [
    {
      name: "search-denials",
      rule: "search",
      denied_share_percent: 20,
      for: "5m",
      webhook: { url: "https://hooks.example.com/weir" },
      enabled: true,
      meta: meta(),
      state: { firing, since, denied_share: firing ? 0.41 : 0.062, last_delivery: since },
    },
    {
      name: "uploads",
      rule: "upload",
      denied_share_percent: 50,
      for: "15m",
      webhook: null,
      enabled: false,
      meta: meta(),
      state: { firing: false, since: null, denied_share: null, last_delivery: null },
    },
  ];
}

function tokens() {
  const ago = (minutes) => new Date(Date.now() - minutes * MINUTE).toISOString();
  return [
    {
      id: "t1",
      name: "ada",
      kind: "api",
      role: "admin",
      domains: null,
      created_at: ago(50_000),
      expires_at: null,
      last_used_at: ago(0.1),
    },
    {
      id: "t2",
      name: "deploy pipeline",
      kind: "api",
      role: "operator",
      domains: ["default"],
      created_at: ago(30_000),
      expires_at: ago(-90_000),
      last_used_at: ago(190),
    },
    {
      id: "t3",
      name: "agents",
      kind: "agent",
      role: "viewer",
      domains: ["default", "partners"],
      created_at: ago(30_000),
      expires_at: null,
      last_used_at: ago(1),
    },
    {
      id: "t4",
      name: "old laptop",
      kind: "api",
      role: "viewer",
      domains: null,
      created_at: ago(90_000),
      expires_at: ago(2_000),
      last_used_at: null,
    },
  ];
}

function agents(scenario) {
  const now = () => new Date().toISOString();
  const trouble = scenario === "trouble";
  const errors = [
    "/rule/exports-daily/match/headers/0/regex: the regular expression is larger than this build allows (limit 256 KiB)",
  ];
  const set = (state = "current") => ({
    revision: state === "current" ? 12 : 11,
    latest: 12,
    hash: "9f2c".repeat(16),
    state,
    errors: state === "refused" ? errors : [],
  });
  const agent = (name, state = "current", away = false) => ({
    name,
    connected: state !== "offline",
    build: "weir-agent 0.1.0",
    time_zones: "2026b",
    boot: "b1f6c2",
    token: "agents",
    domains: [{ domain: "default", ...set(state) }],
    ring: set("current"),
    last_seen: state === "offline" ? new Date(Date.now() - 3 * 60 * MINUTE).toISOString() : now(),
    connected_since: state === "offline" ? null : new Date(Date.now() - 400 * MINUTE).toISOString(),
    last_error: state === "refused" ? "revision 12 of domain default was refused" : null,
    warnings: trouble ? ["no maxmemory is set on shard s3: the new-counter guard is off"] : [],
    shards: ["s1", "s2", "s3"].map((s) => ({
      shard: s,
      breaker: away && s === "s2" ? "open" : "closed",
      last_error: away && s === "s2" ? "no answer within 3.5 ms" : null,
    })),
    decisions_per_second: state === "offline" ? 0 : 412.4,
    stale_seconds: state === "refused" ? 480 : 0,
    dropped_events: trouble ? 1832 : 0,
  });
  if (!trouble) return [agent("gateway-eu-1"), agent("gateway-eu-2")];
  return [
    agent("gateway-eu-1"),
    agent("gateway-eu-2", "refused", true),
    agent("gateway-us-1", "pending"),
    agent("gateway-us-2", "offline"),
  ];
}

function revisions() {
  const who = ["ada", "grace", "deploy pipeline"];
  return Array.from({ length: 12 }, (_, i) => ({
    revision: 12 - i,
    domain: "default",
    hash: "9f2c71d4".repeat(8),
    created_at: new Date(Date.now() - (8 + i * i * 47) * MINUTE).toISOString(),
    author: who[i % 3],
    summary: i === 0 ? "update rule per-user" : i === 1 ? "create rule exports-daily" : "update rule search, tier paid",
    changes: [{ kind: "rule", name: i === 1 ? "exports-daily" : "per-user", action: i === 1 ? "create" : "update" }],
  }));
}

function audit() {
  return revisions().map((r, i) => ({
    id: 100 - i,
    at: r.created_at,
    author: r.author,
    domain: "default",
    kind: "rule",
    name: r.changes[0].name,
    action: r.changes[0].action,
    revision: r.revision,
    before:
      r.changes[0].action === "create"
        ? null
        : { name: "per-user", mode: "shadow", limits: { free: { limit: 80, window: "1m" } } },
    after: { name: r.changes[0].name, mode: "enforce", limits: { free: { limit: 100, window: "1m" } } },
  }));
}
