import { expect, test } from "vitest";
import { placeMistakes, pointerParts } from "./pointer";

test("pointers are split and unescaped", () => {
  expect(pointerParts("")).toEqual([]);
  expect(pointerParts("domain")).toEqual([]);
  expect(pointerParts("/limits/free/window")).toEqual(["limits", "free", "window"]);
  expect(pointerParts("/limits/a~1b~0c~01/limit")).toEqual(["limits", "a/b~c~1", "limit"]);
  expect(pointerParts("/limits//limit")).toEqual(["limits", "", "limit"]);
});

test("every mistake is shown once: at its field or in the list of the others", () => {
  const mistakes = [
    { pointer: "/name", detail: "is missing" },
    { pointer: "/name", detail: "is too long" },
    { pointer: "/surprise", detail: "is not a field" },
  ];
  const { fields, others } = placeMistakes(mistakes, (pointer) => (pointer === "/name" ? "name" : undefined));
  expect(fields).toEqual({ name: "is missing; is too long" });
  expect(others).toEqual([{ pointer: "/surprise", detail: "is not a field" }]);
});
