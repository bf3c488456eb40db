/** What differs between two documents, field by field. */

export interface Difference {
  /** `limits.free.window`. */
  path: string;
  before: string | undefined;
  after: string | undefined;
}

/** The fields whose values differ, by path. Lists are compared whole: their order has a meaning. */
export function differences(before: unknown, after: unknown): Difference[] {
  const [old, now] = [flat(before), flat(after)];
  const paths = [...new Set([...old.keys(), ...now.keys()])].sort();
  return paths.flatMap((path) => {
    const [b, a] = [old.get(path), now.get(path)];
    return b === a ? [] : [{ path, before: b, after: a }];
  });
}

function flat(value: unknown, path = "", into = new Map<string, string>()): Map<string, string> {
  if (isObject(value) && Object.keys(value).length > 0) {
    for (const [name, member] of Object.entries(value)) {
      if (path !== "" || name !== "meta") flat(member, path === "" ? name : `${path}.${name}`, into);
    }
  } else if (value !== undefined && !(path === "" && value === null)) {
    into.set(path, typeof value === "string" ? value : JSON.stringify(value));
  }
  return into;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
