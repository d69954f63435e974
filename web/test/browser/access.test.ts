import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { ATTACKS } from "../../dev/events";
import { assertContrast, assertNamed, assertSteady, says, shot, until, visit } from "./browser";

const PASSWORD = "correct horse";

async function enter(page: Page, password: string): Promise<void> {
  await page.fill("#password", password);
  await page.press("#password", "Enter");
}

for (const theme of ["light", "dark"] as const) {
  test(`login, ${theme}: a wrong password, the right one, the page that was asked for, logout`, () =>
    visit(
      { server: { password: PASSWORD }, path: "#/senders", theme, statuses: [401] },
      async ({ page, standin }) => {
        await says(page, ".login", "Password");
        await shot(page, `login-${theme}`);
        await assertContrast(page);
        await assertNamed(page);
        await assertSteady(page);
        assert.ok(
          !standin.asked.some((one) => /flow|senders/.test(one)),
          "nothing is asked before",
        );
        await enter(page, "wrong");
        await says(page, ".problem", "That is not the password");
        await enter(page, PASSWORD);
        await page.locator("tbody tr").first().waitFor();
        await says(page, "h1", "Senders");
        await page.reload();
        await page.locator("tbody tr").first().waitFor();
        await page.getByRole("button", { name: "Log out admin" }).click();
        await says(page, ".login", "Password");
      },
    ));
}

test("a session that ends elsewhere leads to the login, and back to the same place", () =>
  visit(
    { server: { password: PASSWORD }, path: "#/search?q=host%3Dfw*", statuses: [401] },
    async ({ page }) => {
      await enter(page, PASSWORD);
      await says(page, ".status", /events.* in /);
      await page.context().clearCookies();
      await page.getByRole("button", { name: "Search", exact: true }).click();
      await says(page, ".login", "Password");
      await enter(page, PASSWORD);
      await says(page, ".status", /events.* in /);
      assert.equal(await page.inputValue("#query"), "host=fw*");
    },
  ));

test("a change carries the token of the session", () =>
  visit({ path: "#/health", statuses: [403] }, async ({ page }) => {
    const status = await page.evaluate(() =>
      fetch("api/v1/quarantine/drop?all=true", { method: "POST" }).then((answer) => answer.status),
    );
    assert.equal(status, 403, "the stand-in insists on it");
  }));

test("senders: unknown ones first, a filter, and explain for a sample", () =>
  visit({ path: "#/senders" }, async ({ page }) => {
    await page.locator("tbody tr").nth(20).waitFor();
    const unknown = await page
      .locator("tbody tr")
      .evaluateAll((rows) => rows.map((row) => row.classList.contains("unknown")));
    const first = unknown.indexOf(false);
    assert.ok(first > 0 && !unknown.slice(first).includes(true));
    await page
      .getByRole("button", { name: /^Explain a sample/ })
      .first()
      .click();
    await says(page, "dialog .explained", "no pack's rule fits");
    await shot(page, "explain");
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    await page.fill(".filter", "cisco");
    await page.waitForFunction(() =>
      [...document.querySelectorAll("tbody tr")].every((row) => row.textContent?.includes("cisco")),
    );
    await page.getByRole("button", { name: "events", exact: true }).click();
    await says(page, 'th[aria-sort="descending"]', "events");
  }));

test("quarantine: choose, send again, and drop what was ticked", () =>
  visit({ path: "#/health" }, async ({ page, standin }) => {
    const entries = page.locator(".entry");
    await entries.first().waitFor();
    assert.equal(await entries.count(), 37);
    await entries.first().locator("summary").click();
    await says(page, ".entry-detail", "number 100");
    await page.selectOption('select[aria-label="Reason"]', "too_large");
    await page.waitForFunction(() => document.querySelectorAll(".entry").length === 7);
    await page.getByRole("button", { name: "Replay all that fit" }).click();
    await says(page, "dialog", "Sends every event for too_large again");
    await shot(page, "quarantine-replay");
    await page.getByRole("button", { name: "Replay", exact: true }).click();
    await says(page, ".notice", "7 events sent again");
    await says(page, ".quarantine", "Nothing lies here");
    await page.selectOption('select[aria-label="Reason"]', "");
    await page.waitForFunction(() => document.querySelectorAll(".entry").length === 30);
    for (const id of [100, 101, 103]) {
      await page.getByLabel(`Tick entry ${id}`).check();
    }
    await page.getByRole("button", { name: "Drop 3 ticked" }).click();
    await says(page, "dialog", "cannot be undone");
    await page.getByRole("button", { name: "Keep" }).click();
    await page.locator("dialog").waitFor({ state: "detached" });
    assert.ok(!standin.asked.some((one) => one.includes("/drop")), "nothing happened yet");
    await page.getByRole("button", { name: "Drop 3 ticked" }).click();
    await page.getByRole("button", { name: "Drop", exact: true }).click();
    await says(page, ".notice", "3 events dropped");
    await page.waitForFunction(() => document.querySelectorAll(".entry").length === 27);
    const posts = standin.asked.filter((one) => one.startsWith("POST"));
    assert.deepEqual(posts, [
      "POST /api/v1/quarantine/replay?reason=too_large",
      "POST /api/v1/quarantine/drop?id=100-101%2C103",
    ]);
  }));

/** Nothing that an event brought became an element. */
async function assertHarmless(page: Page): Promise<void> {
  const found = await page.evaluate(() => ({
    elements: document.querySelectorAll("#app img, #app script, #app iframe, #app svg[onload]")
      .length,
    links: [...document.querySelectorAll("a")].filter((one) => /^\s*javascript:/i.test(one.href))
      .length,
    handlers: [...document.querySelectorAll("*")].filter((one) =>
      [...one.attributes].some(({ name }) => name.startsWith("on")),
    ).length,
    hacked: (globalThis as { hacked?: number }).hacked,
    polluted: ({} as { polluted?: string }).polluted,
  }));
  assert.deepEqual(found, {
    elements: 0,
    links: 0,
    handlers: 0,
    hacked: undefined,
    polluted: undefined,
  });
}

test("attacks in every field of every page stay text", () =>
  visit({ server: { hostile: true }, path: "#/flow" }, async ({ page, standin }) => {
    await says(page, ".connection", "live");
    await says(page, ".grid bdi", "<script>");
    await shot(page, "hostile-flow");
    await assertHarmless(page);

    await page.goto(`${standin.url}#/search?since=1h`);
    await says(page, ".event-text", "<script>window.hacked=1</script>");
    await says(page, ".status", /without what could not be read \(.*and 1 more file\)/);
    await page.locator(".event-line").first().click();
    await says(page, ".detail-parsed", "__proto__");
    for (const field of await page.locator(".field summary").all()) {
      await field.click();
    }
    await shot(page, "hostile-search");
    await assertHarmless(page);
    await page.locator(".detail").getByRole("button", { name: "Explain" }).click();
    await says(page, "dialog .explained", "What it is taken for");
    await assertHarmless(page);
    await page.keyboard.press("Escape");
    await page.locator(".detail").getByRole("button", { name: "Search for this host" }).click();
    await page.waitForFunction(() => location.hash.includes("host%3D"));
    await says(page, ".status", /events.* in /);
    await assertHarmless(page);

    await page.goto(`${standin.url}#/search?since=1h&q=%7C%20count%20by%20host%2C%205m`);
    await page.locator(".legend li").first().waitFor();
    await assertHarmless(page);

    await page.goto(`${standin.url}#/search?tail=1`);
    await until(page, () => standin.tails === 1);
    standin.pushTail(7);
    await page.locator(".event").first().waitFor();
    await assertHarmless(page);

    await page.goto(`${standin.url}#/senders`);
    await page.locator("tbody tr").first().waitFor();
    await page
      .getByRole("button", { name: /^Explain a sample/ })
      .first()
      .click();
    await page.locator("dialog .explained").waitFor();
    await assertHarmless(page);
    await page.keyboard.press("Escape");

    await page.goto(`${standin.url}#/health`);
    await page.locator(".entry summary").first().click();
    await page.locator(".alarm").first().waitFor();
    await shot(page, "hostile-health");
    await assertHarmless(page);
  }));

test("an address that changes while the page is drawn is followed", () =>
  visit({}, async ({ page, standin }) => {
    await page.addInitScript(() => {
      // A microtask behind the first drawing: before the browser paints, and before any effect
      // that waits for the paint.
      const drawn = new MutationObserver(() => {
        if (document.getElementById("main")) {
          drawn.disconnect();
          location.hash = "#/search?q=drawn";
        }
      });
      drawn.observe(document, { childList: true, subtree: true });
    });
    await page.goto(`${standin.url}?again`);
    await says(page, "nav [aria-current=page]", "Search");
    assert.equal(await page.locator("#query").inputValue(), "drawn");
  }));

test("an address that attacks stays text", () =>
  visit({ statuses: [400] }, async ({ page, standin }) => {
    for (const attack of ATTACKS) {
      const q = encodeURIComponent(attack);
      await page.goto(`${standin.url}#/search?q=${q}&since=${q}&until=${q}`);
      await page.waitForFunction(
        (text) =>
          (document.getElementById("query") as HTMLInputElement | null)?.value.includes(text),
        attack.slice(0, 4).replace(/[^\x20-\x7e]/g, ""),
      );
      await assertHarmless(page);
    }
    await page.goto(`${standin.url}#/constructor`);
    await says(page, "nav [aria-current=page]", "Flow");
  }));
