import { expect, test } from "vitest";
import type { Rule } from "../api/model";
import { fieldOf } from "./fields";
import { formOf } from "./form";

const FORM = formOf({
  name: "r",
  match: { headers: [{ name: "x", exact: "1" }], descriptors: [{ key: "k" }] },
  key: ["subject"],
  limits: { free: { limit: 1, window: "1m" }, "a/b": { unlimited: true }, "*": { limit: 2, window: "1m" } },
} as Rule);

test.each([
  ["/name", "name"],
  ["/enforce_percent", "enforcePercent"],
  ["/cost_header", "costHeader"],
  ["/key/1", "key"],
  ["/limits", "limits"],
  ["/limits/free/window", "limits.0.window"],
  ["/limits/free", "limits.0.limit"],
  ["/limits/a~1b/unlimited", "limits.1.tier"],
  ["/limits/*/burst", "limits.2.burst"],
  ["/limits/*/calendar", "limits.2.calendar"],
  ["/limits/*/time_zone", "limits.2.timeZone"],
  ["/limits/gone/limit", "limits"],
  ["/match/path", "path"],
  ["/match/methods/0", "methods"],
  ["/match/hosts/2", "hosts"],
  ["/match/headers/0/regex", "headers.0.value"],
  ["/match/headers/0/name", "headers.0.name"],
  ["/match/headers/0", "headers.0.name"],
  ["/match/headers/7/name", "headers"],
  ["/match/descriptors/0/value", "descriptors.0.value"],
  ["/on_failure", "failureMode"],
  ["/on_failure/mode", "failureMode"],
  ["/on_failure/generosity", "generosity"],
  ["/on_failure/escalate/after", "escalateAfter"],
  ["/on_failure/escalate/to", "escalateTo"],
  ["/match", undefined],
  ["/surprise", undefined],
  ["", undefined],
])("a mistake at %s is shown at %s", (pointer, field) => {
  expect(fieldOf(pointer, FORM)).toBe(field);
});
