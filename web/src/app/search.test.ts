import { expect, test } from "vitest";
import { parseSearch, pick, stringifySearch } from "./search";

test.each(["[", "%", "\\", "😀", "a&b=c", "1", "true", "{}", "\u202Egnp", "user:x');alert(1)//"])(
  "filter text %s survives the address",
  (text) => {
    expect(parseSearch(stringifySearch({ subject: text })).subject).toBe(text);
  },
);

test("odd addresses are read as far as they go", () => {
  expect(parseSearch("?%&=x&a=%E0%A4%A")).toMatchObject({ a: expect.any(String) });
  expect(stringifySearch({ a: undefined, b: "", c: null })).toBe("");
});

test("only wanted text is picked", () => {
  expect(pick({ rule: "a", tier: "", by: 3, other: "x" }, "rule", "tier", "by")).toEqual({ rule: "a" });
});
