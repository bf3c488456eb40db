import { expect, test, vi } from "vitest";
import { safeNext, takeCode } from "./code";

function browser(url: string) {
  const { pathname, search, hash } = new URL(url);
  const replaceState = vi.fn();
  const location = { pathname, search, hash } as Location;
  return { location, history: { state: null, replaceState } as unknown as History, replaceState };
}

test("the code is taken and removed from the address", () => {
  const { location, history, replaceState } = browser("http://weir/sign-in?next=%2Frules#code=abc");
  expect(takeCode(location, history)).toBe("abc");
  expect(replaceState).toHaveBeenCalledWith(null, "", "/sign-in?next=%2Frules");
});

test("without a code the address stays", () => {
  const { location, history, replaceState } = browser("http://weir/sign-in");
  expect(takeCode(location, history)).toBeUndefined();
  expect(replaceState).not.toHaveBeenCalled();
});

test("signing in never leads to another site", () => {
  expect(safeNext("/rules?q=a")).toBe("/rules?q=a");
  for (const bad of [
    undefined,
    "",
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "javascript:alert(1)",
    "/sign-in",
  ]) {
    expect(safeNext(bad), String(bad)).toBe("/");
  }
});
