/** Limits that a new tier must bring along: a rule that names each of its tiers has none for a tier that is added. */
import type { Limit, Rule, Tier } from "../api/model";
import { pointerParts } from "../api/pointer";
import { type LimitRow, limitOf, limitRow } from "../rules/form";

export interface OwnLimit extends LimitRow {
  rule: string;
}

/** What to ask for; each starts as the default tier's limit, without its burst, which belongs to that limit. */
export function ownLimits(rules: readonly Rule[], tiers: readonly Tier[]): OwnLimit[] {
  const usual = tiers.find((tier) => tier.default)?.name ?? "";
  return rules
    .filter((rule) => rule.limits["*"] === undefined)
    .map((rule) => ({ rule: rule.name, ...limitRow(usual, rule.limits[usual] ?? { window: "60s" }), burst: "" }));
}

/** The rules of `document` with the new tier's limits, in the order in which they were asked for. */
export function rulesWith(rules: readonly Rule[], tier: string, own: readonly OwnLimit[]): Rule[] {
  return own.flatMap((row) => {
    const rule = rules.find(({ name }) => name === row.rule);
    const limit: Limit = limitOf(row, rule?.algorithm ?? "");
    return rule ? [{ ...rule, limits: { ...rule.limits, [tier]: limit } }] : [];
  });
}

const FIELDS: Record<string, string> = { name: "name", description: "description", default: "isDefault" };

/** The field of a mistake, whether the tier was sent alone or in a document with rules. */
export function fieldOf(pointer: string): string | undefined {
  const [kind = "", index, ...rest] = pointerParts(pointer);
  if (kind === "tiers") return FIELDS[rest[0] ?? ""];
  if (kind !== "rules") return FIELDS[kind];
  const [limits, , field] = rest;
  if (limits === "limits" && field === undefined) return `own.${index}`;
  return limits === "limits" && (field === "limit" || field === "window") ? `own.${index}.${field}` : undefined;
}
