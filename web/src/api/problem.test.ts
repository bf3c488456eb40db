import { expect, test } from "vitest";
import { ApiError, asApiError, errorOf } from "./problem";

test("a problem document is kept whole", () => {
  const error = errorOf(409, {
    type: "urn:weir:problem:in-use",
    title: "Still in use",
    status: 409,
    detail: "rules give it a limit",
    used_by: [{ kind: "rule", domain: "default", name: "search" }],
  });
  expect(error.title).toBe("Still in use");
  expect(error.message).toBe("rules give it a limit");
  expect(error.usedBy).toEqual(["rule search"]);
  expect(error.conflict).toBe(false);
});

test("mistakes that are not what they should be are left out", () => {
  const error = errorOf(400, {
    title: "no",
    errors: [{ pointer: "/name", detail: "is missing" }, null, { pointer: 3 }, "x"],
  });
  expect(error.mistakes).toEqual([{ pointer: "/name", detail: "is missing" }]);
});

test.each([
  [401, undefined, "Sign in to go on"],
  [412, "<html>", "Changed by someone else meanwhile"],
  [502, null, "The control plane could not do this"],
  [418, [], "Refused (HTTP 418)"],
])("an answer %i without a problem document is described by its status", (status, body, title) => {
  const error = errorOf(status, body);
  expect(error.title).toBe(title);
  expect(error.mistakes).toEqual([]);
});

test("anything thrown can be shown", () => {
  const known = new ApiError(403, "No", "");
  expect(asApiError(known)).toBe(known);
  expect(asApiError(new TypeError("x is undefined")).detail).toBe("x is undefined");
  expect(asApiError("text").detail).toBe("text");
});
