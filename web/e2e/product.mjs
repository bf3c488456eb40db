/** The running product that the browser tests look at: where it is, and requests through its gateway. */
import { setTimeout as sleep } from "node:timers/promises";

/** Addresses from the environment; tests without a product are a mistake, not a success. */
export function product() {
  const { WEIR_E2E_URL: url, WEIR_E2E_LINK: link, WEIR_E2E_GATEWAY: gateway } = process.env;
  if (!url || !link || !gateway)
    throw new Error("set WEIR_E2E_URL, WEIR_E2E_LINK (one-time sign-in link) and WEIR_E2E_GATEWAY");
  return { url: url.replace(/\/$/, ""), link, gateway: gateway.replace(/\/$/, "") };
}

/** One request through the gateway as `user` of `tier`. */
export async function request({ gateway }, user, { path = "/api/search", tier = "free" } = {}) {
  const response = await fetch(gateway + path, { headers: { "X-User-Id": user, "X-Tier": tier } });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}

/** Waits until `check` gives something true, and gives it back; fails with `what` after the deadline. */
export async function eventually(what, check, seconds = 20) {
  const deadline = Date.now() + seconds * 1_000;
  let last;
  while (Date.now() < deadline) {
    try {
      last = await check();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    await sleep(100);
  }
  throw new Error(`${what}: not within ${seconds} s (last: ${last})`);
}
