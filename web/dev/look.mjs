/**
 * Takes a picture of every page, light and dark, wide and narrow, into `target/look` (or the folder given), and runs axe on each.
 * `node dev/look.mjs [FOLDER] [PAGE ...]`; the dashboard must be built.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch, serious } from "../e2e/browser.mjs";
import { serve } from "./mock/serve.mjs";

const [folder = "../target/look", ...only] = process.argv.slice(2);

const PAGES = {
  busy: {
    overview: "/",
    "by-rule": "/?by=rule",
    rules: "/rules",
    "new-rule": "/rules/new",
    rule: "/rules/edit?name=per-user",
    "complex-rule": "/rules/edit?name=exports-daily",
    "in-flight-rule": "/rules/edit?name=render-jobs",
    tiers: "/tiers",
    agents: "/agents",
    shards: "/shards",
    alerts: "/alerts",
    tokens: "/tokens",
    revisions: "/revisions",
    audit: "/audit",
    lost: "/nowhere",
    "bad-range": "/?from=x&to=y",
  },
  trouble: { "trouble-overview": "/?range=1h", "trouble-agents": "/agents", "trouble-alerts": "/alerts" },
  empty: {
    "empty-overview": "/",
    "empty-rules": "/rules",
    "empty-tiers": "/tiers",
    "empty-agents": "/agents",
    "empty-shards": "/shards",
    "empty-alerts": "/alerts",
  },
  down: { "down-overview": "/", "down-rules": "/rules" },
  out: { "sign-in": "/sign-in" },
};
const OPENED = new Set(["trouble-agents", "overview", "revisions", "audit"]);
const VIEWS = [
  { scheme: "light", width: 1440, height: 900 },
  { scheme: "dark", width: 1440, height: 900 },
  { scheme: "light", width: 360, height: 740 },
  { scheme: "dark", width: 360, height: 740 },
];

mkdirSync(folder, { recursive: true });
const browser = await launch();
let violations = 0;
for (const [scenario, pages] of Object.entries(PAGES)) {
  const { url, world, close } = await serve(scenario);
  world.signedIn = scenario !== "out";
  for (const { scheme, width, height } of VIEWS) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
    for (const [name, path] of Object.entries(pages).filter(([name]) => only.length === 0 || only.includes(name)))
      await look(context, { name, address: url + path, scheme, width });
    await context.close();
  }
  close();
}
await browser.close();
console.log(`${violations} serious violations`);
process.exit(violations > 0 ? 1 : 0);

async function look(context, { name, address, scheme, width }) {
  const page = await context.newPage();
  page.on("pageerror", (error) => console.log(`${name}: ${error}`));
  page.on(
    "console",
    (message) =>
      message.type() === "error" &&
      !message.text().includes("Failed to load resource") &&
      console.log(`${name}: ${message.text()}`),
  );
  await page.goto(address);
  await page.waitForLoadState("networkidle", { timeout: 1_000 }).catch(() => undefined);
  if (OPENED.has(name))
    await page
      .locator("button[aria-expanded=false][aria-label^=Details]")
      .nth(name === "trouble-agents" ? 1 : 0)
      .click();
  await page.waitForTimeout(400);
  await page.screenshot({ path: join(folder, `${name}-${scheme}-${width}.png`), fullPage: true });
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  if (overflow > 0) console.log(`${name} ${width}: ${overflow} px too wide`);
  // Axe looks at the document, which is the same in every width but for what is hidden.
  for (const violation of width > 1000 ? await serious(page) : []) {
    violations += 1;
    console.log(`${name} ${scheme} ${width}: ${violation}`);
  }
  await page.close();
}
