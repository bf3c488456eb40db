/** What went wrong with a call, in a form that pages can show: the server's `application/problem+json`, or the lack of any answer. */
import type { Mistake, Problem } from "./model";

export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    /** HTTP status; 0 if no answer came. */
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    /** Mistakes in the document that was sent, each with its JSON pointer. */
    readonly mistakes: readonly Mistake[] = [],
    /** What still uses the thing that was to be deleted: `rule search`. */
    readonly usedBy: readonly string[] = [],
  ) {
    super(detail === "" ? title : detail);
  }

  /** Whether the document changed since it was read. */
  get conflict(): boolean {
    return this.status === 412;
  }
}

/** The error of an answer that is not a success. Anything but a problem document (a proxy's page, say) is described by its status alone. */
export function errorOf(status: number, body: unknown): ApiError {
  const problem = isProblem(body) ? body : undefined;
  const title = problem?.title || titleOf(status);
  return new ApiError(status, title, problem?.detail ?? "", mistakesOf(problem), usersOf(problem));
}

/** The error of a call that got no answer at all. */
export function unreachable(): ApiError {
  return new ApiError(0, "The control plane does not answer", "Check that it runs and that this machine can reach it.");
}

/** `thrown` as something that can be shown. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const detail = thrown instanceof Error ? thrown.message : String(thrown);
  return new ApiError(0, "Something went wrong in the dashboard", detail);
}

function isProblem(body: unknown): body is Partial<Problem> {
  return typeof body === "object" && body !== null && !Array.isArray(body);
}

function mistakesOf(problem: Partial<Problem> | undefined): Mistake[] {
  const errors: unknown = problem?.errors;
  if (!Array.isArray(errors)) return [];
  return errors.filter((e): e is Mistake => typeof e?.pointer === "string" && typeof e?.detail === "string");
}

function usersOf(problem: Partial<Problem> | undefined): string[] {
  const users: unknown = problem?.used_by;
  if (!Array.isArray(users)) return [];
  return users.map((user) => [user?.kind, user?.name].filter((word) => typeof word === "string").join(" "));
}

function titleOf(status: number): string {
  switch (status) {
    case 401:
      return "Sign in to go on";
    case 403:
      return "Your role does not allow this";
    case 404:
      return "Not found";
    case 409:
      return "In conflict with what exists";
    case 412:
      return "Changed by someone else meanwhile";
    case 413:
      return "Too large";
    case 429:
      return "Too many attempts; wait a moment";
    default:
      return status >= 500 ? "The control plane could not do this" : `Refused (HTTP ${status})`;
  }
}
