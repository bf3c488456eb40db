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

/** What axe finds serious or critical on the page, one line each; `only`: the rules to look at. */
export async function serious(page, only) {
  await settled(page);
  // The page's policy allows scripts of its own origin only; a debugger may still evaluate.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(readFileSync(AXE, "utf8"));
  const options = { resultTypes: ["violations"], ...(only ? { runOnly: only } : {}) };
  const { violations } = await page.evaluate((options) => globalThis.axe.run(document, options), options);
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

/** Waits for transitions to end: what fades in has too little contrast on its way. */
async function settled(page) {
  const moves = () =>
    page.evaluate(() =>
      document
        .getAnimations()
        .some(
          (one) => one.playState === "running" && one.effect.getComputedTiming().endTime !== Number.POSITIVE_INFINITY,
        ),
    );
  while (await moves()) await page.waitForTimeout(50);
}

/** Presses Tab (or `key`) until what has the focus has this name: its label's, its own, or its text. */
export async function tabTo(page, name, key = "Tab") {
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press(key);
    const names = await page.evaluate(() => {
      const { activeElement: here } = document;
      const labels = Array.from(here.labels ?? [], (label) => label.textContent);
      return [here.getAttribute("aria-label"), here.textContent, ...labels].map((text) =>
        text?.replace("*", "").trim(),
      );
    });
    if (names.includes(name)) return;
  }
  throw new Error(`no ${name} is reached with ${key}`);
}
