/**
 * An operator's first day, in a real browser: sign in, make a rule, see who it refuses, find the agents converged, meet another
 * operator's change, clean up. `npm run e2e`; the environment says where the product runs (see product.mjs).
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { launch, serious } from "./browser.mjs";
import { eventually, product, request } from "./product.mjs";

const id = randomBytes(4).toString("hex");
const rule = `e2e-${id}`;
const LIMIT = 3;
/** Text that breaks pages which build HTML from names. All of it can stand in a request header. */
const HOSTILE = [
  `x');alert(1)//${id}`,
  `<img src=x onerror=alert(1)>${id}`,
  `</script ><script>alert(1)</script>${id}`,
  `=cmd|'/c calc'!A1 ${id}`,
];

let weir;
let browser;
let page;
/** What must never happen: dialogs, uncaught errors, scripts that the policy stopped. */
const trouble = [];

before(async () => {
  weir = await product();
  browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on("dialog", async (dialog) => {
    // "Leave without saving?" is the browser's own question after an edit; anything else is a script that ran.
    if (dialog.type() === "beforeunload") return dialog.accept();
    trouble.push(`dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on("pageerror", (error) => trouble.push(`error: ${error}`));
  page.on("console", (message) => {
    if (message.type() === "error" && /Content Security Policy|Uncaught/i.test(message.text()))
      trouble.push(message.text());
  });
});

after(async () => {
  await browser?.close();
  await weir?.stop();
});

const go = async (path) => page.goto(weir.url + path);
const heading = (name) => page.getByRole("heading", { level: 1, name });

test("without a session every page leads to sign-in, and a wrong token is refused", async () => {
  await go("/rules");
  await heading("Sign in").waitFor();
  assert.match(page.url(), /next=%2Frules/);
  await page.getByLabel("API token").fill("weir_not_a_token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This token was not accepted").waitFor();
  assert.deepEqual(await serious(page), []);
});

test("a sign-in link works once, and its code does not stay in the address", async () => {
  await page.goto(weir.link);
  await heading("Overview").waitFor();
  assert.ok(!page.url().includes("code="), page.url());
  const stranger = await (await browser.newContext()).newPage();
  await stranger.goto(weir.link);
  await stranger.getByText("This link no longer works").waitFor();
  await stranger.context().close();
});

test("a mistake in a new rule is shown at its field, then the rule is stored", async () => {
  await go("/rules/new");
  await page.getByRole("textbox", { name: "Name", exact: true }).fill(rule);
  await page.getByRole("textbox", { name: "Path" }).fill("/api/search");
  const limit = page.getByRole("textbox", { name: "Limit", exact: true });
  await limit.fill("many");
  await page.getByRole("button", { name: "Create rule" }).click();
  await page.getByText("Some fields need another look").waitFor();
  assert.equal(await limit.getAttribute("aria-invalid"), "true");
  await limit.fill(String(LIMIT));
  await page.getByRole("textbox", { name: "Window" }).fill("5m");
  await page.getByRole("combobox", { name: "Algorithm" }).click();
  await page.getByRole("option", { name: "Sliding window" }).click();
  assert.deepEqual(await serious(page), []);
  await page.getByRole("button", { name: "Create rule" }).click();
  await heading("Rules").waitFor();
  await page.getByRole("link", { name: rule, exact: true }).waitFor();
  await page.getByText(/Revision \d+ runs on/).waitFor();
});

test("requests through the gateway are refused by it", async () => {
  await eventually("the rule reaches the gateway", async () => {
    const { headers } = await request(weir, `probe-${randomBytes(4).toString("hex")}`);
    return headers.get("ratelimit-policy")?.includes(rule);
  });
  for (const user of [`victim-${id}`, ...HOSTILE]) {
    const answers = [];
    for (let i = 0; i < LIMIT + 4; i++) answers.push(await request(weir, user));
    assert.deepEqual(
      answers.map((a) => a.status),
      [200, 200, 200, 429, 429, 429, 429],
      user,
    );
    assert.match(answers.at(-1).text, new RegExp(rule));
    assert.ok(Number(answers.at(-1).headers.get("retry-after")) >= 1);
  }
});

test("the overview shows who was refused, and by what", async () => {
  await go("/");
  await page.getByRole("table", { name: "Most throttled subjects" }).waitFor();
  await page.getByLabel("Filter subjects").fill(id);
  const row = page.getByRole("row").filter({ hasText: `victim-${id}` });
  await row.waitFor({ timeout: 45_000 });
  await row.getByRole("button", { name: `Only rule ${rule}` }).waitFor();
  assert.match(await row.textContent(), /4/);
  await page.waitForURL(new RegExp(`subject=${id}`));
  await page.reload();
  await row.waitFor();
  assert.deepEqual(await serious(page), []);
});

test("hostile names are text", async () => {
  for (const user of HOSTILE) {
    await page.locator("bdi", { hasText: user }).first().waitFor();
  }
  assert.equal(await page.locator("main img, main script").count(), 0);
  for (const filter of ["[", "%", "\\", "😀"]) {
    await page.getByLabel("Filter subjects").fill(filter);
    await page.getByText("No subject matches this filter").waitFor();
  }
  await go("/?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z&rule=%5B%25%5C");
  await page.getByText("This range cannot be shown").waitFor();
});

test("every agent runs the newest revision", async () => {
  await go("/agents");
  const rows = page.getByRole("table", { name: "Agents" }).locator("tbody tr");
  await rows.first().waitFor();
  await eventually("all agents are current", async () => {
    const texts = await rows.allInnerTexts();
    return texts.length > 0 && texts.every((text) => text.includes("Connected") && text.includes("Current"));
  });
  assert.deepEqual(await serious(page), []);
});

test("two operators do not overwrite each other", async () => {
  await go(`/rules/edit?name=${rule}`);
  await page.getByLabel("Description").fill("mine");
  const status = await page.evaluate(async (name) => {
    const address = `/v1/rules/${name}`;
    const theirs = await (await fetch(address)).json();
    const headers = { "Content-Type": "application/json", "If-Match": theirs.meta.etag };
    return (
      await fetch(address, { method: "PUT", headers, body: JSON.stringify({ ...theirs, description: "theirs" }) })
    ).status;
  }, rule);
  assert.equal(status, 200);
  await page.getByRole("button", { name: "Save rule" }).click();
  await page.getByText("Someone else changed this meanwhile").waitFor();
  await page.getByRole("button", { name: "Load theirs" }).click();
  await eventually(
    "their description is loaded",
    async () => (await page.getByLabel("Description").inputValue()) === "theirs",
  );
  await page.getByLabel("Description").fill("ours");
  await page.getByRole("button", { name: "Save rule" }).click();
  await heading("Rules").waitFor();
  await page.getByText("ours").first().waitFor();
});

test("a tier in use is not deleted, and the reason is said", async () => {
  await go("/tiers");
  await page.getByRole("button", { name: "Delete tier paid" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Delete tier" }).click();
  await dialog.getByText(/Still used by/).waitFor();
  assert.deepEqual(await serious(page), []);
  await dialog.getByRole("button", { name: "Keep it" }).click();
});

test("a rule is deleted after a second look that names it", async () => {
  await go(`/rules/edit?name=${rule}`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(rule).waitFor();
  await dialog.getByRole("button", { name: "Delete rule" }).click();
  await heading("Rules").waitFor();
  await page.getByRole("link", { name: rule, exact: true }).waitFor({ state: "detached" });
});

test("the other pages hold, by keyboard and on a narrow screen too", async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  for (const [path, name] of [
    ["/shards", "Shards"],
    ["/alerts", "Alerts"],
    ["/tokens", "Tokens"],
    ["/revisions", "Revisions"],
    ["/audit", "Audit"],
  ]) {
    await go(path);
    await heading(name).waitFor();
    await page.locator("main table, main strong").first().waitFor();
    assert.deepEqual(await serious(page), [], path);
    const tooWide = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.equal(tooWide, 0, `${path} is ${tooWide} px too wide`);
  }
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
});

test("after signing out nothing is shown", async () => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await go("/");
  await page.getByRole("button", { name: /admin|operator|viewer/ }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await heading("Sign in").waitFor();
  await go("/tokens");
  await heading("Sign in").waitFor();
});

test("nothing ran that should not have", () => {
  assert.deepEqual(trouble, []);
});
