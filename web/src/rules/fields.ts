/** Which field of the rule form a mistake of the server belongs to. */
import { pointerParts } from "../api/pointer";
import type { RuleForm } from "./form";

const PLAIN: Record<string, string> = {
  name: "name",
  description: "description",
  group: "group",
  priority: "priority",
  key: "key",
  algorithm: "algorithm",
  mode: "mode",
  enforce_percent: "enforcePercent",
  cost_header: "costHeader",
};

const LIMIT: Record<string, string> = {
  limit: "limit",
  window: "window",
  calendar: "calendar",
  time_zone: "timeZone",
  burst: "burst",
};

/** The path of the form's field, such as `limits.0.window`; undefined if no field shows that part of the document. */
export function fieldOf(pointer: string, form: RuleForm): string | undefined {
  const [head, ...rest] = pointerParts(pointer);
  if (head === "limits") return limitField(rest, form);
  if (head === "match") return matchField(rest, form);
  if (head === "on_failure") return failureField(rest);
  return head === undefined ? undefined : PLAIN[head];
}

function limitField([tier, part]: string[], form: RuleForm): string {
  const row = form.limits.findIndex((limit) => limit.tier === tier);
  if (row < 0) return "limits";
  const named = part === undefined ? undefined : LIMIT[part];
  return `limits.${row}.${named ?? (form.limits[row]?.unlimited ? "tier" : "limit")}`;
}

function matchField([part, index, member]: string[], form: RuleForm): string | undefined {
  const row = Number(index);
  switch (part) {
    case "methods":
    case "hosts":
    case "path":
      return part;
    case "headers":
      return row < form.headers.length
        ? `headers.${row}.${member === "name" || member === undefined ? "name" : "value"}`
        : "headers";
    case "descriptors":
      return row < form.descriptors.length
        ? `descriptors.${row}.${member === "value" ? "value" : "key"}`
        : "descriptors";
    default:
      return undefined;
  }
}

function failureField([part, member]: string[]): string {
  if (part === "generosity") return "generosity";
  if (part === "escalate") return member === "to" ? "escalateTo" : "escalateAfter";
  return "failureMode";
}
