import type { Mistake, Rule } from "../api/model";
import { pointerParts } from "../api/pointer";

/** What lint says, by the rule it is about: `/rules/3/...` is about the fourth rule of the exported document. */
export function warningsByRule(
  warnings: readonly Mistake[],
  rules: readonly Pick<Rule, "name">[],
): Map<string, string[]> {
  const byRule = new Map<string, string[]>();
  for (const { pointer, detail } of warnings) {
    const [kind, index] = pointerParts(pointer);
    const rule = kind === "rules" ? rules[Number(index)] : undefined;
    if (rule) byRule.set(rule.name, [...(byRule.get(rule.name) ?? []), detail]);
  }
  return byRule;
}
