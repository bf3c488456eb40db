/** A headless browser, and axe on its pages. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"];

export function launch() {
  return chromium.launch({
    executablePath: process.env.WEIR_CHROMIUM ?? process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: FLAGS,
  });
}

/** What axe finds serious or critical on the page, one line each. */
export async function serious(page) {
  // The page's policy allows scripts of its own origin only; a debugger may still evaluate.
  await page.evaluate(readFileSync(AXE, "utf8"));
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, help, nodes }) =>
        `${id}: ${help} (${nodes
          .map((n) => n.target.join(" "))
          .slice(0, 3)
          .join(" | ")})`,
    );
}
