import { expect, test } from "vitest";
import type { Rule } from "../api/model";
import { fieldOf, ownLimits, rulesWith } from "./own-limits";

const rule = (name: string, limits: Rule["limits"]) => ({ name, key: [], limits }) as unknown as Rule;
const named = rule("named", { free: { limit: 100, window: "60s" }, paid: { limit: 1_000, window: "60s" } });
const rest = rule("rest", { "*": { limit: 5, window: "60s" } });
const tiers = [{ name: "paid" }, { name: "free", default: true }];

test("only rules that name each tier ask for a limit, the default tier's to begin with", () => {
  const own = ownLimits([rest, named], tiers);
  expect(own.map(({ rule, limit, window }) => [rule, limit, window])).toEqual([["named", "100", "60s"]]);
});

test("the limits go into the rules, which keep the others", () => {
  const own = ownLimits([named], tiers).map((row) => ({ ...row, limit: "7" }));
  expect(rulesWith([rest, named], "gold", own)).toEqual([
    { ...named, limits: { ...named.limits, gold: { limit: 7, window: "60s" } } },
  ]);
});

test("mistakes find their fields", () => {
  expect(["/name", "/tiers/0/name", "/default"].map(fieldOf)).toEqual(["name", "name", "isDefault"]);
  expect(["/rules/1/limits/gold/limit", "/rules/1/limits/gold", "/rules/1/name", ""].map(fieldOf)).toEqual([
    "own.1.limit",
    "own.1",
    undefined,
    undefined,
  ]);
});
