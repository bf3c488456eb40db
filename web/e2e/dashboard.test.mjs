/**
 * An operator's first day, in a real browser: sign in, make a rule, see who it refuses, find the agents converged, meet another
 * operator's change, clean up. `npm run e2e`; the environment says where the product runs (see product.mjs).
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { launch, serious, tabTo } from "./browser.mjs";
import { eventually, product, request } from "./product.mjs";

const id = randomBytes(4).toString("hex");
const rule = `e2e-${id}`;
const LIMIT = 3;
/** Requests of each user below that are refused. */
const REFUSED = 4;
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
/** Calls the API as the page's own session does. */
const api = (path, options) =>
  page.evaluate(
    async ({ path, options }) => {
      const response = await fetch(path, options);
      return { status: response.status, body: response.status === 204 ? null : await response.json() };
    },
    { path, options },
  );

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
    for (let i = 0; i < LIMIT + REFUSED; i++) answers.push(await request(weir, user));
    assert.deepEqual(
      answers.map((a) => a.status),
      [200, 200, 200, 429, 429, 429, 429],
      user,
    );
    assert.match(answers.at(-1).text, new RegExp(rule));
    assert.ok(Number(answers.at(-1).headers.get("retry-after")) >= 1);
  }
});

test("every agent runs the newest revision", async () => {
  await go("/agents");
  const rows = page.getByRole("table", { name: "Agents" }).locator("tbody tr");
  await rows.first().waitFor();
  await eventually("all agents are current", async () => {
    const texts = await rows.allInnerTexts();
    return texts.every((text) => ["Connected", "Current", "All 3 reached"].every((word) => text.includes(word)));
  });
  assert.deepEqual(await rows.locator("strong").allTextContents(), ["agent-1", "agent-2", "demo-gateway"]);
  assert.deepEqual(await serious(page), []);
});

test("two operators do not overwrite each other", async () => {
  await go(`/rules/edit?name=${rule}`);
  await page.getByLabel("Description").fill("mine");
  const address = `/v1/rules/${rule}`;
  const { body: theirs } = await api(address);
  const { status } = await api(address, {
    method: "PUT",
    headers: { "Content-Type": "application/json", "If-Match": theirs.meta.etag },
    body: JSON.stringify({ ...theirs, description: "theirs" }),
  });
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

test("a tier is made together with the limits that rules need for it, and edited", async () => {
  const tier = `gold-${id}`;
  const { body: before } = await api("/v1/export");
  const dialog = page.getByRole("dialog");
  const name = dialog.getByRole("textbox", { name: "Name" });
  const row = page.getByRole("row").filter({ hasText: tier });
  await page.getByRole("button", { name: "New tier" }).click();
  await name.fill("Gold!");
  await dialog.getByRole("button", { name: "Create tier" }).click();
  await dialog.getByText("Some fields need another look").waitFor();
  assert.equal(await name.getAttribute("aria-invalid"), "true");
  await name.fill(tier);
  await dialog.getByLabel("Limit in per-user").fill("500");
  assert.deepEqual(await serious(page), []);
  await dialog.getByRole("button", { name: "Create tier" }).click();
  await row.getByText("500 per minute").waitFor();
  await page.getByRole("button", { name: `Edit tier ${tier}` }).click();
  await dialog.getByLabel("Description").fill("For the few");
  await dialog.getByRole("button", { name: "Save tier" }).click();
  await row.getByText("For the few").waitFor();
  const { body: after } = await api("/v1/export");
  assert.deepEqual(
    after.tiers.find((one) => one.name === tier),
    { name: tier, description: "For the few" },
  );
  assert.deepEqual(Object.keys(after.rules.find((one) => one.name === "per-user").limits).sort(), [
    "free",
    tier,
    "paid",
  ]);
  const headers = { "Content-Type": "application/json" };
  const { status } = await api("/v1/apply?prune=true", { method: "POST", headers, body: JSON.stringify(before) });
  assert.equal(status, 200);
});

test("a rule is made and deleted with keys alone", async () => {
  const name = `keys-${id}`;
  await go("/rules");
  await heading("Rules").waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await tabTo(page, "New rule");
  await page.keyboard.press("Enter");
  await heading("New rule").waitFor();
  for (const [field, text] of [
    ["Name", name],
    ["Path", "/keys"],
    ["Limit", "7"],
  ]) {
    await tabTo(page, field);
    await page.keyboard.type(text);
  }
  await tabTo(page, "Algorithm", "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("option", { name: "Fixed window" }).waitFor();
  await page.keyboard.type("fix");
  for (
    let i = 0;
    i < 10 && !(await page.getByRole("option", { name: "Fixed window" }).getAttribute("data-combobox-selected"));
    i++
  )
    await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await tabTo(page, "Create rule");
  await page.keyboard.press("Enter");
  await heading("Rules").waitFor();
  await page.getByRole("link", { name, exact: true }).waitFor();
  const { body } = await api(`/v1/rules/${name}`);
  assert.deepEqual([body.match.path, body.limits["*"].limit, body.algorithm], ["/keys", 7, "fixed_window"]);
  await tabTo(page, name);
  await page.keyboard.press("Enter");
  await heading(name).waitFor();
  await tabTo(page, "Delete");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await tabTo(page, "Delete rule");
  await page.keyboard.press("Enter");
  await heading("Rules").waitFor();
  await page.getByRole("link", { name, exact: true }).waitFor({ state: "detached" });
});

test("the overview shows who was refused, and by what", async () => {
  await go("/");
  await page.getByRole("table", { name: "Most throttled subjects" }).waitFor();
  await page.getByLabel("Filter subjects").fill(id);
  const row = page.getByRole("row").filter({ hasText: `victim-${id}` });
  await row.waitFor({ timeout: 45_000 });
  await row.getByRole("button", { name: `Only rule ${rule}` }).waitFor();
  assert.equal(await row.locator('td[data-label="Denied"]').textContent(), String(REFUSED));
  await page.waitForURL(new RegExp(`subject=${id}`));
  await page.reload();
  await row.waitFor();
  assert.deepEqual(await serious(page), []);
});

test("tiles and table are what the API says, and nothing was decided without a shard", async () => {
  await go("/");
  const tile = (label) =>
    page
      .locator("dl > div", { has: page.getByText(label, { exact: true }) })
      .locator("dd")
      .first();
  const denied = (HOSTILE.length + 1) * REFUSED;
  await eventually("the refusals are all there", async () => {
    const { body } = await api("/v1/analytics/summary?domain=default&from=-15m");
    const cells = await page.locator('td[data-label="Denied"]').allTextContents();
    assert.deepEqual([body.denied, body.degraded, body.unavailable], [denied, 0, 0]);
    assert.equal(await tile("Denied").textContent(), String(body.denied));
    assert.equal(await tile("Allowed").textContent(), String(body.allowed));
    assert.equal(
      cells.reduce((sum, cell) => sum + Number(cell), 0),
      body.denied,
    );
    return true;
  });
});

test("the overview has the fleet at a glance", async () => {
  const panel = (title) => page.locator("section", { has: page.getByRole("heading", { name: title, exact: true }) });
  await panel("Agents")
    .getByText(/^3 of 3$/)
    .waitFor();
  for (const shard of ["shard-1", "shard-2", "shard-3"]) {
    await panel("Shards")
      .getByRole("listitem")
      .filter({ hasText: shard })
      .getByText("reached", { exact: true })
      .waitFor();
  }
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

test("every page holds in the dark", async () => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.emulateMedia({ colorScheme: "dark" });
  await go("/rules/new");
  for (const name of [
    "New rule",
    "Overview",
    "Alerts",
    "Rules",
    "Tiers",
    "Agents",
    "Shards",
    "Revisions",
    "Audit",
    "Tokens",
  ]) {
    if (name !== "New rule") await page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
    await heading(name).waitFor();
    await eventually("all is loaded", async () => (await page.locator("main [aria-busy=true]").count()) === 0);
    assert.equal(await page.locator("html").getAttribute("data-mantine-color-scheme"), "dark");
    // What else axe looks at is the same in every light.
    assert.deepEqual(await serious(page, ["color-contrast"]), [], name);
  }
  await page.emulateMedia({ colorScheme: "light" });
});

test("after signing out nothing is shown", async () => {
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
