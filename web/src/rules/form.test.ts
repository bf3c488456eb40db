import { expect, test } from "vitest";
import type { Rule } from "../api/model";
import { documentOf, formOf, NEW_LIMIT, NEW_RULE } from "./form";

const FULL: Rule = {
  name: "exports",
  description: "Daily exports",
  group: "exports",
  priority: -3,
  match: {
    methods: ["GET", "POST"],
    hosts: ["*.example.com"],
    path: "/api/exports/{id}/**",
    headers: [
      { name: "x-plan", exact: "team" },
      { name: "x-beta", present: true },
      { name: "x-v", prefix: "2" },
      { name: "x-r", regex: "a|b" },
    ],
    descriptors: [{ key: "region", value: "eu-*" }, { key: "any" }],
  },
  key: ["subject", "param:id", "header:x-plan"],
  algorithm: "token_bucket",
  limits: {
    free: { limit: 0, window: "1d" },
    paid: { limit: 2000, window: "1d", burst: 50 },
    staff: { unlimited: true },
    "*": { limit: 9007199254740991, window: "366d" },
  },
  on_failure: { mode: "local", generosity: 1.5, escalate: { after: "5s", to: "closed" } },
  mode: "enforce",
  enforce_percent: 25,
  cost_header: "x-rows",
};

const LEAST: Rule = { name: "all", match: {}, key: [], limits: { "*": { limit: 1, window: "1s" } }, mode: "off" };

const QUOTA: Rule = {
  ...LEAST,
  algorithm: "fixed_window",
  limits: {
    free: { limit: 1, calendar: "week" },
    "*": { limit: 9, calendar: "month", time_zone: "Europe/Zurich" },
  },
};

test.each([
  ["a quota of a calendar", QUOTA],
  ["requests in flight", { ...LEAST, algorithm: "concurrency" as const }],
  ["a rule with everything", FULL],
  ["a rule with next to nothing", LEAST],
])("%s survives the form", (_, rule) => {
  expect(documentOf(formOf(rule))).toEqual(rule);
});

test("what a newer server wrote is sent back as it came, and its meta is not", () => {
  const rule = { ...LEAST, calendar: { unit: "month" }, meta: { etag: '"3"' } } as unknown as Rule;
  expect(documentOf(formOf(rule))).toEqual({ ...LEAST, calendar: { unit: "month" } });
});

test("an answer without the fields that may be absent can be edited", () => {
  const form = formOf({ name: "x", limits: {} } as Rule);
  expect(form).toMatchObject({ mode: "enforce", key: [], methods: [], limits: [], failureMode: "" });
});

test("empty fields are left out, so that the domain's defaults apply", () => {
  expect(documentOf({ ...NEW_RULE, name: " search " })).toEqual({
    name: "search",
    match: {},
    key: ["subject"],
    limits: { "*": { window: "60s" } },
    mode: "enforce",
  });
});

test.each([
  ["100", 100],
  ["1,000,000", 1_000_000],
  ["1.5", 1.5],
  ["-1", -1],
  ["0", 0],
  ["1e3", "1e3"],
  ["many", "many"],
  ["1,00", "1,00"],
])("a limit of %s is sent as %s, for the server to judge", (typed, sent) => {
  const limits = [{ ...NEW_LIMIT, limit: typed, window: "1m" }];
  expect(documentOf({ ...NEW_RULE, limits }).limits["*"]?.limit).toEqual(sent);
});

test("a burst goes only with token buckets, a share of subjects only with enforcing rules", () => {
  const limits = [{ ...NEW_LIMIT, limit: "1", window: "1m", burst: "5" }];
  const form = {
    ...NEW_RULE,
    limits,
    algorithm: "fixed_window" as const,
    mode: "shadow" as const,
    enforcePercent: "10",
  };
  expect(documentOf(form).limits["*"]).toEqual({ limit: 1, window: "1m" });
  expect(documentOf(form)).not.toHaveProperty("enforce_percent");
});

test("a calendar goes only with fixed windows, a cost header not with requests in flight", () => {
  const limits = [{ ...NEW_LIMIT, limit: "1", calendar: "day" as const, timeZone: " Asia/Tokyo " }];
  const sent = (algorithm: "fixed_window" | "sliding_log" | "concurrency" | "") =>
    documentOf({ ...NEW_RULE, limits, algorithm, costHeader: "x-cost" });
  const quota = { limit: 1, calendar: "day", time_zone: "Asia/Tokyo" };
  expect(sent("fixed_window").limits["*"]).toEqual(quota);
  // Whose default it is, the server knows.
  expect(sent("").limits["*"]).toEqual(quota);
  expect(sent("sliding_log").limits["*"]).toEqual({ limit: 1, window: "60s" });
  expect(sent("sliding_log").cost_header).toBe("x-cost");
  expect(sent("concurrency")).not.toHaveProperty("cost_header");
});
