/** The one-time code of a sign-in link. It travels in the fragment, which browsers send to no server. */

/** Takes the code out of the address and removes it there, so that it stays in no history and no screenshot. */
export function takeCode(location: Location, history: History): string | undefined {
  const code = new URLSearchParams(location.hash.replace(/^#/, "")).get("code") ?? undefined;
  if (location.hash !== "") history.replaceState(history.state, "", location.pathname + location.search);
  return code === "" ? undefined : code;
}

/** Where to go after signing in: a page of this dashboard, never another site. */
export function safeNext(next: string | undefined): string {
  return next !== undefined && /^\/(?![/\\])/.test(next) && !next.startsWith("/sign-in") ? next : "/";
}
