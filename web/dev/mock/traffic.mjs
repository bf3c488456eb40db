/** Made-up traffic: a day's rhythm, a burst of abuse, a little of everything else. The same for the same second. */
import { HOSTILE } from "./world.mjs";

const SPLIT = [
  ["per-user", "free", 0.5],
  ["per-user", "paid", 0.22],
  ["search", "free", 0.18],
  ["upload", "free", 0.06],
  ["login-by-ip", "free", 0.04],
];

function noise(n) {
  const x = Math.sin(n * 12.9898) * 43758.5453;
  return x - Math.floor(x);
}

/** Requests per second of each outcome at `second`. */
function ratesAt(second, scenario) {
  const day = Math.sin((second / 86_400) * 2 * Math.PI) * 120;
  const base = 620 + day + 60 * Math.sin(second / 170) + 70 * noise(Math.floor(second / 10));
  const burst = Math.max(0, Math.sin(second / 400)) ** 6 * 190;
  const away = scenario === "trouble" && Math.sin(second / 260) > 0.75;
  return {
    allowed: base * (away ? 0.7 : 1),
    denied: 22 + 18 * noise(Math.floor(second / 20)) + burst,
    shadow_denied: 9 + 7 * noise(Math.floor(second / 30) + 7),
    degraded_allowed: away ? base * 0.28 : 0,
    degraded_denied: away ? 12 : 0,
    unavailable: away ? 8 : 0,
  };
}

export function timeseries(world, query) {
  const step = stepOf(query.get("step") ?? "10");
  const from = Math.floor(Date.parse(query.get("from")) / 1000 / step) * step;
  const to = Math.floor(Date.parse(query.get("to")) / 1000);
  const times = [];
  for (let t = from; t < to; t += step) times.push(t);
  const parts = SPLIT.filter(([rule, tier]) => matches(query, "rule", rule) && matches(query, "tier", tier));
  const series = new Map();
  if (world.scenario !== "empty")
    for (const part of parts) addPart(series, part, times, step, to, query.get("group_by"), world.scenario);
  return { from: query.get("from"), to: query.get("to"), step_seconds: step, times, series: [...series.values()] };
}

function addPart(series, [rule, tier, weight], times, step, to, groupBy, scenario) {
  for (const outcome of ["allowed", "denied", "shadow_denied", "degraded_allowed", "degraded_denied", "unavailable"]) {
    const key = { outcome, ...(groupBy === "rule" ? { rule } : {}), ...(groupBy === "tier" ? { tier } : {}) };
    const id = JSON.stringify(key);
    const counts = series.get(id) ?? { key, requests: times.map(() => 0), units: times.map(() => 0) };
    series.set(id, counts);
    times.forEach((t, i) => {
      const n = Math.round(ratesAt(t, scenario)[outcome] * weight * Math.min(step, to - t));
      counts.requests[i] += n;
      counts.units[i] += n;
    });
  }
}

function stepOf(text) {
  const [, number, unit] = /^(\d+)([smhd]?)$/.exec(text) ?? [null, "10", "s"];
  return Number(number) * { "": 1, s: 1, m: 60, h: 3_600, d: 86_400 }[unit];
}

function matches(query, name, value) {
  return !query.get(name) || query.get(name) === value;
}

export function summary(world, query) {
  const { series } = timeseries(world, query);
  const sum = (...outcomes) =>
    series
      .filter((s) => outcomes.includes(s.key.outcome))
      .reduce((a, s) => a + s.requests.reduce((x, y) => x + y, 0), 0);
  const [allowed, denied] = [sum("allowed"), sum("denied")];
  const degraded = sum("degraded_allowed", "degraded_denied");
  return {
    allowed,
    denied,
    shadow_denied: sum("shadow_denied"),
    degraded,
    unavailable: sum("unavailable"),
    denied_share: allowed === 0 ? 0 : denied / (allowed + denied),
    unique_denied_subjects: world.scenario === "empty" ? 0 : 1_284,
  };
}

export function topSubjects(world) {
  if (world.scenario === "empty") return { items: [], sampled: false };
  const names = [
    "user:scraper-7",
    "ip:203.0.113.44",
    "key:ci-nightly",
    "user:mallory",
    "tenant:acme",
    "user:bob",
    ...HOSTILE,
    "ip:2001:db8:4:1::/64",
  ];
  const items = names.map((subject, i) => {
    const denied = Math.round(48_210 / (i + 1) ** 1.4);
    const allowed = [820, 410, 9_300, 640, 25_000, 3_300][i % 6];
    const rules = i % 3 === 0 ? ["per-user", "search"] : i % 3 === 1 ? ["login-by-ip"] : ["upload"];
    const last_seen = new Date(Date.now() - i * i * 4_000).toISOString();
    return {
      subject,
      tier: i % 4 === 2 ? "paid" : "free",
      rules,
      denied,
      allowed,
      denied_share: denied / (denied + allowed),
      first_seen: last_seen,
      last_seen,
      error: i > 8 ? 12 : 0,
    };
  });
  const seen = new Date().toISOString();
  const refused = [...(world.denied?.values() ?? [])].map((row) => ({
    ...row,
    denied_share: row.denied / (row.denied + row.allowed),
    first_seen: seen,
    last_seen: seen,
  }));
  return { items: [...refused, ...items], sampled: false };
}

export function denials(query) {
  const subject = query.get("subject") ?? "";
  const items = Array.from({ length: 5 }, (_, i) => ({
    time: new Date(Date.now() - (i + 1) * 1_700).toISOString(),
    rule: "search",
    tier: "free",
    subject,
    outcome: "denied",
    reason: "limited",
    method: "GET",
    host: "api.example.com",
    path: i === 2 ? "/api/search/<b>x</b>" : "/api/search",
    client_ip: "203.0.113.44",
    limit: 50,
    window_ms: 60_000,
    retry_after_ms: 1_200 + i * 300,
    cost: 1,
    shard: "s2",
    weight: 1,
  }));
  return { items, next_page_token: "" };
}
