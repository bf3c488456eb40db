/** A rule in words, so that an editor can read back what was set. */
import type { Algorithm, CalendarUnit, FailureMode, Limit, Rule } from "../api/model";
import { count } from "../format/number";
import { perSpan, spanWords } from "../format/span";

export const ALGORITHM_WORDS: Record<Algorithm, string> = {
  token_bucket: "Token bucket",
  sliding_window: "Sliding window",
  sliding_log: "Sliding log",
  fixed_window: "Fixed window",
  concurrency: "Concurrency",
};

export const ALGORITHM_HELP: Record<Algorithm, string> = {
  token_bucket: "Refills evenly up to a burst. Smooth, and forgiving after a pause.",
  sliding_window: "Never more than the limit in any window that ends now.",
  sliding_log: "The same to the microsecond: remembers each request. Limits up to 10,000.",
  fixed_window: "Starts again from nothing at each window’s edge, like a quota. Can follow a calendar.",
  concurrency: "So many requests in flight, each until it is released or its lease expires. Limits up to 10,000.",
};

export const CALENDAR_WORDS: Record<CalendarUnit, string> = {
  minute: "Minute",
  hour: "Hour",
  day: "Day",
  week: "Week",
  month: "Month",
};

export const FAILURE_WORDS: Record<FailureMode, string> = {
  local: "Count locally",
  open: "Let through",
  closed: "Refuse with 503",
};

/** `100 per minute`, `100 per minute, burst 200`, `100 per calendar month in UTC`, `10 in flight`, `blocked`, `unlimited`. */
export function limitWords(limit: Limit, algorithm?: Algorithm): string {
  if (limit.unlimited) return "unlimited";
  if (limit.limit === 0) return "blocked";
  const units = typeof limit.limit === "number" ? count(limit.limit) : "?";
  if (algorithm === "concurrency") return `${units} in flight, each for at most ${spanWords(limit.window ?? "?")}`;
  if (limit.calendar) return `${units} per calendar ${limit.calendar} in ${limit.time_zone ?? "UTC"}`;
  const base = `${units} per ${perSpan(limit.window ?? "?")}`;
  return typeof limit.burst === "number" && limit.burst !== limit.limit ? `${base}, burst ${count(limit.burst)}` : base;
}

/** `GET /api/search on *.example.com`, `every request`. */
export function matchWords(rule: Pick<Rule, "match">): string {
  const match = rule.match ?? {};
  const methods = match.methods ?? [];
  const path = match.path === undefined || match.path === "/**" ? "" : match.path;
  const parts = [methods.join(", "), path].filter((part) => part !== "");
  const target = parts.length === 0 ? "every request" : path === "" ? `${parts[0]} requests` : parts.join(" ");
  const hosts = match.hosts?.length ? ` on ${match.hosts.join(", ")}` : "";
  // A row that was only just added has no name yet.
  const listed = (words: string, names: readonly string[] = []) => {
    const given = names.filter((name) => name !== "");
    return given.length > 0 ? ` ${words} ${given.join(", ")}` : "";
  };
  const headers = listed(
    "with",
    match.headers?.map((h) => h.name),
  );
  const descriptors = listed(
    "described by",
    match.descriptors?.map((d) => d.key),
  );
  return `${target}${hosts}${headers}${descriptors}`;
}

/** What is counted apart: `each subject and route`, `all requests together`. */
export function keyWords(key: readonly string[]): string {
  if (key.length === 0) return "all requests together";
  return `each ${key.map(keyPartWords).join(" and ")}`;
}

export function keyPartWords(part: string): string {
  const [kind, name] = part.split(/:(.*)/s);
  if (name === undefined) return kind === "ip" ? "client address" : (kind ?? part);
  return `${kind === "param" ? "path parameter" : kind} “${name}”`;
}

/** The whole rule in one or two sentences. */
export function ruleWords(rule: Rule): string[] {
  const limits = Object.entries(rule.limits).map(([tier, limit]) => {
    const who = tier === "*" ? (Object.keys(rule.limits).length === 1 ? "everyone" : "everyone else") : tier;
    return `${who}: ${limitWords(limit, rule.algorithm)}`;
  });
  const sentences = [
    `For ${matchWords(rule)}, ${keyWords(rule.key ?? [])} ${rule.key?.length ? "has its own counter" : "share one counter"}.`,
  ];
  sentences.push(limits.length === 0 ? "No limits yet." : `Limits: ${limits.join("; ")}.`);
  sentences.push(modeWords(rule));
  const failure = rule.on_failure;
  if (failure) {
    const then = failure.escalate?.to
      ? `, and after ${spanWords(failure.escalate.after ?? "?")}: ${FAILURE_WORDS[failure.escalate.to].toLowerCase()}`
      : "";
    sentences.push(`While its shard is away: ${FAILURE_WORDS[failure.mode].toLowerCase()}${then}.`);
  }
  return sentences;
}

function modeWords(rule: Rule): string {
  if (rule.mode === "off") return "It is off: requests do not meet it.";
  if (rule.mode === "shadow") return "It only reports what it would refuse.";
  const percent = rule.enforce_percent;
  if (typeof percent === "number" && percent < 100)
    return `It refuses for ${percent} % of subjects and only reports for the rest.`;
  return "It refuses what is over the limit.";
}
