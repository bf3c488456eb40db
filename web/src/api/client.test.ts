import { expect, test } from "vitest";
import { allItems, bodyOf, ifMatch, written } from "./client";
import { ApiError } from "./problem";

function answer<T>(status: number, data?: T, error?: unknown, headers: Record<string, string> = {}) {
  return Promise.resolve({
    data: data as T,
    error,
    response: new Response(status === 204 ? null : "", { status, headers }),
  });
}

test("a refusal is thrown with what the server said", async () => {
  const problem = {
    title: "The request has mistakes",
    status: 400,
    errors: [{ pointer: "/key/0", detail: "is no part" }],
  };
  const error = await bodyOf(answer(400, undefined, problem)).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ApiError);
  expect((error as ApiError).mistakes).toHaveLength(1);
});

test("no answer at all is told from a refusal", async () => {
  const error = await bodyOf(Promise.reject(new TypeError("Failed to fetch"))).catch((thrown: unknown) => thrown);
  expect((error as ApiError).status).toBe(0);
  const garbled = await bodyOf(Promise.reject(new SyntaxError("Unexpected token <"))).catch(
    (thrown: unknown) => thrown,
  );
  expect((garbled as ApiError).status).toBe(502);
});

test("a write tells the revision that carries it", async () => {
  expect((await written(answer(200, {}, undefined, { "Weir-Revision": "13" }))).revision).toBe(13);
  expect((await written(answer(204))).revision).toBeUndefined();
});

test("the etag is quoted once", () => {
  const meta = { domain: "", created_at: "", updated_at: "", updated_by: "", revision: 3 };
  expect(ifMatch({ meta: { ...meta, etag: '"3"' } })).toEqual({ "If-Match": '"3"' });
  expect(ifMatch({ meta: { ...meta, etag: "3" } })).toEqual({ "If-Match": '"3"' });
});

test("a list is read page by page until there is no next one", async () => {
  const asked: (string | undefined)[] = [];
  const items = await allItems(({ page_token }) => {
    asked.push(page_token);
    const next = page_token === undefined ? "b" : page_token === "b" ? "c" : "";
    return answer(200, { items: [page_token ?? "a"], next_page_token: next });
  });
  expect(items).toEqual(["a", "b", "c"]);
  expect(asked).toEqual([undefined, "b", "c"]);
});
