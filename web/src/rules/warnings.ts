import type { Mistake } from "../api/model";
import { pointerParts } from "../api/pointer";

/** What lint says about the rule `name`: warnings point at `/rules/NAME/...`. */
export function warningsOf(warnings: readonly Mistake[] | undefined, name: string): string[] {
  return (warnings ?? []).filter((warning) => about(warning, name)).map((warning) => warning.detail);
}

function about({ pointer }: Mistake, name: string): boolean {
  const [kind, rule] = pointerParts(pointer);
  return kind === "rules" && rule === name;
}
