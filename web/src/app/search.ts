/** The search part of addresses: plain `name=value` pairs, whatever text they hold. Nothing in it can break a page. */

export type TextSearch = Record<string, string | undefined>;

export function parseSearch(text: string): TextSearch {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const pairs = Object.entries(search).flatMap(([name, value]) =>
    value === undefined || value === null || value === "" ? [] : [[name, String(value)]],
  );
  const text = new URLSearchParams(pairs).toString();
  return text === "" ? "" : `?${text}`;
}

/** Keeps the named parameters that are text, for a route's `validateSearch`. */
export function pick<K extends string>(search: Record<string, unknown>, ...names: K[]): { [P in K]?: string } {
  const picked: { [P in K]?: string } = {};
  for (const name of names) {
    const value = search[name];
    if (typeof value === "string" && value !== "") picked[name] = value;
  }
  return picked;
}
