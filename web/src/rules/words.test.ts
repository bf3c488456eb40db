import { expect, test } from "vitest";
import type { Rule } from "../api/model";
import { warningsByRule } from "./warnings";
import { keyWords, limitWords, matchWords, ruleWords } from "./words";

test("limits in words", () => {
  expect(limitWords({ limit: 1000, window: "60s" })).toBe("1,000 per minute");
  expect(limitWords({ limit: 10, window: "90s", burst: 20 })).toBe("10 per 1 minute 30 seconds, burst 20");
  expect(limitWords({ limit: 0, window: "60s" })).toBe("blocked");
  expect(limitWords({ unlimited: true })).toBe("unlimited");
  expect(limitWords({})).toBe("? per ?");
  expect(limitWords({ limit: 9000, calendar: "month", time_zone: "Europe/Zurich" })).toBe(
    "9,000 per calendar month in Europe/Zurich",
  );
  expect(limitWords({ limit: 9, calendar: "week" })).toBe("9 per calendar week in UTC");
  expect(limitWords({ limit: 10, window: "30s" }, "concurrency")).toBe("10 in flight, each for at most 30 seconds");
});

test("matches and keys in words", () => {
  expect(matchWords({})).toBe("every request");
  expect(matchWords({ match: { methods: ["GET"], path: "/api/search" } })).toBe("GET /api/search");
  expect(matchWords({ match: { methods: ["POST"], hosts: ["a.example"] } })).toBe("POST requests on a.example");
  expect(matchWords({ match: { headers: [{ name: "", present: true }], descriptors: [{ key: "a" }] } })).toBe(
    "every request described by a",
  );
  expect(keyWords([])).toBe("all requests together");
  expect(keyWords(["subject", "header:x-plan", "ip"])).toBe("each subject and header “x-plan” and client address");
});

test("a whole rule in words", () => {
  const rule: Rule = {
    name: "r",
    match: {},
    key: ["subject"],
    limits: { free: { limit: 100, window: "1m" }, "*": { unlimited: true } },
    on_failure: { mode: "local", escalate: { after: "5s", to: "closed" } },
    mode: "shadow",
  };
  expect(ruleWords(rule)).toEqual([
    "For every request, each subject has its own counter.",
    "Limits: free: 100 per minute; everyone else: unlimited.",
    "It only reports what it would refuse.",
    "While its shard is away: count locally, and after 5 seconds: refuse with 503.",
  ]);
});

test("lint's warnings find their rule by its place in the exported document", () => {
  const rules = [{ name: "a" }, { name: "b" }];
  const warnings = [
    { pointer: "/rules/1/key", detail: "one" },
    { pointer: "/rules/1", detail: "two" },
    { pointer: "/rules/9", detail: "lost" },
    { pointer: "/tiers/0", detail: "other" },
  ];
  expect(warningsByRule(warnings, rules)).toEqual(new Map([["b", ["one", "two"]]]));
});
