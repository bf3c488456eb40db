/** The running product that the browser tests look at: found by the environment, or started here; and requests through its gateway. */
import { spawn } from "node:child_process";
import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const START_SECONDS = 120;
const STOP_SECONDS = 10;

/**
 * `{ url, link, gateway, stop }`. With WEIR_E2E_URL, WEIR_E2E_LINK (one-time sign-in link) and WEIR_E2E_GATEWAY that product is looked
 * at; without them `weir dev` is started on free ports with data of its own (WEIR_BIN, else the debug build).
 */
export async function product() {
  const { WEIR_E2E_URL: url, WEIR_E2E_LINK: link, WEIR_E2E_GATEWAY: gateway } = process.env;
  if (url && link && gateway) return { url: plain(url), link, gateway: plain(gateway), stop: async () => undefined };
  if (url || link || gateway) throw new Error("set all of WEIR_E2E_URL, WEIR_E2E_LINK and WEIR_E2E_GATEWAY, or none");
  return start();
}

async function start() {
  const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../target", import.meta.url));
  const program = process.env.WEIR_BIN ?? join(target, "debug/weir");
  const data = mkdtempSync(join(tmpdir(), "weir-e2e-"));
  const [http, grpc, one, two, demo] = await freePorts(5);
  const ports = ["--http-port", http, "--grpc-port", grpc, "--agent-ports", `${one},${two}`, "--gateway-port", demo];
  const child = spawn(program, ["dev", "--data", join(data, "weir"), ...ports], { stdio: ["ignore", "pipe", "pipe"] });
  const log = join(data, "output.log");
  child.stderr.pipe(createWriteStream(log));
  const over = new Promise((resolve) => child.once("exit", resolve));
  child.once("error", () => undefined);
  const stop = async () => {
    child.kill("SIGINT");
    await Promise.race([over, sleep(STOP_SECONDS * 1_000, undefined, { ref: false })]);
    child.kill("SIGKILL");
    rmSync(data, { recursive: true, force: true });
  };
  try {
    const link = await Promise.race([
      linkIn(child.stdout),
      over.then((code) => Promise.reject(new Error(`${program} dev ended with ${code}; see ${log}`))),
      sleep(START_SECONDS * 1_000, undefined, { ref: false }).then(() =>
        Promise.reject(new Error(`${program} dev is not up; see ${log}`)),
      ),
    ]);
    return { url: `http://127.0.0.1:${http}`, link, gateway: `http://127.0.0.1:${demo}`, stop };
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

/** The sign-in link among what `weir dev` prints; the rest is read too, so that it never waits for a reader. */
function linkIn(output) {
  return new Promise((resolve) => {
    createInterface({ input: output }).on("line", (line) => {
      const found = /https?:\/\/\S+\/sign-in#code=\S+/.exec(line);
      if (found) resolve(found[0]);
    });
  });
}

async function freePorts(count) {
  const servers = await Promise.all(
    Array.from({ length: count }, () => {
      const server = createServer();
      return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
    }),
  );
  const ports = servers.map((server) => String(server.address().port));
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

function plain(url) {
  return url.replace(/\/$/, "");
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
