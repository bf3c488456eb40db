/** Calls to the REST API: typed by the OpenAPI document, with every failure turned into an `ApiError`. */
import createClient from "openapi-fetch";
import type { Meta } from "./model";
import { errorOf, unreachable } from "./problem";
import type { paths } from "./schema.gen";

// The session is an HttpOnly, SameSite=Strict cookie of this origin; nothing here ever holds a credential.
export const api = createClient<paths>({ baseUrl: window.location.origin, credentials: "same-origin" });

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a successful answer. Throws an `ApiError` for any other. */
export async function bodyOf<T>(call: Promise<Answer<T>>): Promise<T> {
  return (await answerOf(call)).data as T;
}

/** What a write led to: the document as it is now, and the revision that carries it to the agents (if it made one). */
export interface Written<T> {
  document: T;
  revision: number | undefined;
}

/** Waits for a write. Throws an `ApiError` if it was refused. */
export async function written<T>(call: Promise<Answer<T>>): Promise<Written<T>> {
  const { data, response } = await answerOf(call);
  const header = response.headers.get("Weir-Revision");
  return { document: data as T, revision: header === null ? undefined : Number(header) };
}

/** The `If-Match` value that says "as long as it is still what I read". */
export function ifMatch(document: { meta?: Meta | null }): { "If-Match": string } {
  const etag = document.meta?.etag ?? "";
  return { "If-Match": etag.startsWith('"') || etag.startsWith("W/") ? etag : `"${etag}"` };
}

/** The most items that a list shows; the server has no more than that of anything but history. */
const MAX_ITEMS = 20_000;
const PAGE_SIZE = 500;

interface Page<T> {
  items: T[];
  next_page_token: string;
}

/** All items of a list, page after page. */
export async function allItems<T>(
  page: (query: { page_size: number; page_token?: string }) => Promise<Answer<Page<T>>>,
) {
  const items: T[] = [];
  let token = "";
  do {
    const next = await bodyOf(page({ page_size: PAGE_SIZE, ...(token === "" ? {} : { page_token: token }) }));
    items.push(...next.items);
    token = next.next_page_token;
  } while (token !== "" && items.length < MAX_ITEMS);
  return items;
}

async function answerOf<T>(call: Promise<Answer<T>>): Promise<Answer<T>> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (thrown) {
    // `fetch` rejects for a lost connection; so does reading a body that is not JSON.
    if (thrown instanceof SyntaxError) throw errorOf(502, null);
    throw unreachable();
  }
  if (!answer.response.ok) throw errorOf(answer.response.status, answer.error);
  return answer;
}
