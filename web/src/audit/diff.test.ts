import { expect, test } from "vitest";
import { differences } from "./diff";

test("only fields that differ are listed, by path", () => {
  const before = {
    name: "r",
    mode: "shadow",
    limits: { free: { limit: 80, window: "1m" } },
    key: ["a", "b"],
    meta: { etag: "1" },
  };
  const after = {
    name: "r",
    mode: "enforce",
    limits: { free: { limit: 100, window: "1m" } },
    key: ["b", "a"],
    meta: { etag: "2" },
  };
  expect(differences(before, after)).toEqual([
    { path: "key", before: '["a","b"]', after: '["b","a"]' },
    { path: "limits.free.limit", before: "80", after: "100" },
    { path: "mode", before: "shadow", after: "enforce" },
  ]);
});

test("a creation and a deletion list every field", () => {
  expect(differences(null, { name: "r" })).toEqual([{ path: "name", before: undefined, after: "r" }]);
  expect(differences({ name: "r" }, null)).toEqual([{ path: "name", before: "r", after: undefined }]);
  expect(differences(null, null)).toEqual([]);
});
