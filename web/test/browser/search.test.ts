import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { numberNow } from "../../dev/standin";
import { assertSteady, says, shot, until, visit } from "./browser";

const FOUND = /events?.* in /;

async function search(page: Page, query: string): Promise<void> {
  await page.fill("#query", query);
  await page.press("#query", "Enter");
  await asksFor(page, query);
}

/** Waits until the address asks for this. */
async function asksFor(page: Page, query: string): Promise<void> {
  await page.waitForFunction(
    (q) => new URLSearchParams(location.hash.split("?")[1]).get("q") === q,
    query,
  );
}

/** Whether every event's line fits. */
function all(page: Page, selector: string, pattern: RegExp): Promise<string[]> {
  return page
    .locator(selector)
    .allTextContents()
    .then((texts) => texts.filter((text) => !pattern.test(text)));
}

test("a query finds its events and marks what was looked for", () =>
  visit({ path: "#/search?since=1h" }, async ({ page }) => {
    await says(page, ".status", FOUND);
    await search(page, '"access denied" host=web-*');
    await says(page, ".event mark", /access denied/);
    await says(page, ".status", FOUND);
    assert.deepEqual(await all(page, ".event-host", /^web-/), []);
    await assertSteady(page);
  }));

test("an event opens: raw and parsed side by side, and its values are the next question", () =>
  visit({ path: "#/search?since=1h&q=sshd%20OR%20password" }, async ({ page }) => {
    const first = page.locator(".event").first();
    await first.locator(".event-line").click();
    const [raw, parsed] = [first.locator(".detail-raw"), first.locator(".detail-parsed")];
    const [a, b] = [await raw.boundingBox(), await parsed.boundingBox()];
    assert.ok(a && b && b.x > a.x + a.width - 1, "side by side");
    await shot(page, "search-event");
    const user = await parsed.locator("dt:has-text('user') + dd .pair-value").innerText();
    await parsed.getByRole("button", { name: "Exclude this user" }).click();
    await asksFor(page, `(sshd OR password) user!=${user}`);
    await says(page, ".status", FOUND);
    await page.goBack();
    await page.waitForFunction(
      () => (document.getElementById("query") as HTMLInputElement).value === "sshd OR password",
    );
  }));

test("times are local, and UTC is in the hover", () =>
  visit({ path: "#/search" }, async ({ page }) => {
    // At once: while a search runs, the first event may become another one.
    const [shown, title, iso] = await page
      .locator(".event time")
      .first()
      .evaluate((time: HTMLElement) => [time.innerText, time.title, time.getAttribute("datetime")]);
    const zurich = new Date(iso ?? "").toLocaleString("sv-SE", { timeZone: "Europe/Zurich" });
    assert.ok(shown?.startsWith(zurich), `${shown} is not ${zurich}`);
    assert.match(title ?? "", /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} UTC$/);
    assert.equal(title?.slice(0, 10), iso?.slice(0, 10));
  }));

test("an error points at its column", () =>
  visit({ path: "#/search", statuses: [400] }, async ({ page }) => {
    await search(page, "host=fw (a OR b");
    await says(page, ".query-error", "Column 9");
    await says(page, ".query-error mark", "(");
    await says(page, ".query-error", "close it with )");
    await shot(page, "search-error");
    await search(page, "host=fw*");
    await says(page, ".status", FOUND);
    assert.equal(await page.locator(".query-error").count(), 0);
  }));

test("dragging over the histogram zooms, the buttons too, and back leads back", () =>
  visit({ path: "#/search?since=1h" }, async ({ page }) => {
    const over = page.locator(".histogram .u-over");
    await over.waitFor();
    const box = await over.boundingBox();
    assert.ok(box);
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.25, y);
    await says(page, ".histogram-head", /: [\d,]+ events?/);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.4, y, { steps: 4 });
    await page.mouse.move(box.x + box.width * 0.5, y, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(() => /since=\d{13}&until=\d{13}/.test(location.hash));
    const span = () =>
      page.evaluate(() => {
        const params = new URLSearchParams(location.hash.split("?")[1]);
        return Number(params.get("until")) - Number(params.get("since"));
      });
    const dragged = await span();
    assert.ok(dragged > 0.22 * 3.6e6 && dragged < 0.3 * 3.6e6, `a quarter of an hour: ${dragged}`);
    await says(page, ".range-custom", "–");
    await says(page, ".status", FOUND);
    await page.getByRole("button", { name: "Zoom out" }).click();
    await page.waitForFunction((old) => {
      const params = new URLSearchParams(location.hash.split("?")[1]);
      return Number(params.get("until")) - Number(params.get("since")) > 1.9 * old;
    }, dragged);
    await page.goBack();
    await page.goBack();
    await page.waitForFunction(() => location.hash.endsWith("since=1h"));
    await says(page, '.range button[aria-pressed="true"]', "1h");
  }));

test("a time range of one's own", () =>
  visit({ path: "#/search" }, async ({ page }) => {
    await page.locator(".range-custom").click();
    await page.locator("input[type=datetime-local]").first().fill("2026-01-02T03:04:05");
    await page.locator("input[type=datetime-local]").nth(1).fill("2026-01-02T04:04:05");
    await says(page, ".range-panel", "1 h");
    await page.getByRole("button", { name: "Apply" }).click();
    // 03:04:05 in Zurich is 02:04:05 UTC in winter.
    await page.waitForFunction(
      (ms) => location.hash.includes(`since=${ms}`),
      Date.UTC(2026, 0, 2, 2, 4, 5),
    );
    await says(page, ".empty", "No events match");
    await page.getByRole("button", { name: /Search the last 24h/ }).click();
    await says(page, ".status", FOUND);
  }));

test("earlier queries come back", () =>
  visit({ path: "#/search" }, async ({ page }) => {
    for (const query of ["first", "second one", "third"]) {
      await search(page, query);
    }
    await page.fill("#query", "");
    await page.press("#query", "ArrowDown");
    assert.deepEqual(await page.locator(".past-query").allTextContents(), [
      "third",
      "second one",
      "first",
    ]);
    await shot(page, "search-past");
    await page.press("#query", "ArrowDown");
    await page.press("#query", "ArrowDown");
    await page.press("#query", "Enter");
    await page.waitForFunction(() => location.hash.includes("second+one"));
    await page.reload();
    await page.getByRole("button", { name: /Earlier queries/ }).click();
    await says(page, ".past-query", "third");
    await page.keyboard.press("Escape");
    await page.locator(".past").waitFor({ state: "hidden" });
  }));

test("fields: a value is asked for or excluded by a click", () =>
  visit({ path: "#/search?since=1h" }, async ({ page }) => {
    const field = page.locator(".field", { hasText: "sourcetype" });
    await field.locator("summary").click();
    const value = await field.locator(".value-text").first().innerText();
    await field
      .getByRole("button", { name: /^Search for sourcetype/ })
      .first()
      .click();
    await asksFor(page, `sourcetype=${value}`);
    await typesAre(page, value, true);
    await field
      .getByRole("button", { name: /^Exclude sourcetype/ })
      .first()
      .click();
    await asksFor(page, `sourcetype!=${value}`);
    await typesAre(page, value, false);
  }));

/** Waits until all events are of this type, or none is. */
async function typesAre(page: Page, value: string, wanted: boolean): Promise<void> {
  await page.waitForFunction(
    ([type, is]) => {
      const found = [...document.querySelectorAll(".event-type")];
      return found.length > 0 && found.every((one) => (one.textContent === type) === is);
    },
    [value, wanted] as const,
  );
}

test("an aggregation is a table to be sorted, and over time a chart", () =>
  visit({ path: "#/search?since=1h" }, async ({ page }) => {
    await search(page, "| count by host, 5m");
    await page.locator(".bucket-chart .u-over").waitFor();
    await says(page, ".status", /rows? from/);
    await shot(page, "search-table");
    const counts = () =>
      page
        .locator("tbody td:nth-child(3)")
        .allTextContents()
        .then((all) => all.map(Number));
    await page.getByRole("button", { name: "count" }).click();
    await says(page, 'th[aria-sort="descending"]', "count");
    const down = await counts();
    assert.deepEqual(
      down,
      [...down].sort((a, b) => b - a),
    );
    await page.getByRole("button", { name: "count" }).click();
    await says(page, 'th[aria-sort="ascending"]', "count");
    assert.deepEqual(
      await counts(),
      [...down].sort((a, b) => a - b),
    );
    await search(page, "| top 3 host");
    await says(page, ".status", "3 rows");
    assert.equal(await page.locator(".bucket-chart").count(), 0);
  }));

test("older events come with scrolling, each once", () =>
  visit({ path: "#/search?since=24h" }, async ({ page, standin }) => {
    await says(page, ".status", /the latest 200 shown/);
    await page.mouse.move(700, 600);
    for (let pages = 1; pages < 3; pages += 1) {
      await page.locator(".event").last().scrollIntoViewIfNeeded();
      await page.waitForFunction(
        (n) => document.querySelectorAll(".event").length > 200 * n,
        pages,
      );
    }
    const times = await page
      .locator(".event time")
      .evaluateAll((all) => all.map((one) => one.getAttribute("title") ?? ""));
    assert.equal(new Set(times).size, times.length, "each once");
    assert.deepEqual(times, [...times].sort().reverse(), "newest first");
    assert.ok(standin.asked.some((one) => one.includes("until=") && one.includes("buckets=0")));
  }));

test("a search that is cancelled ends on the server too", () =>
  visit({ path: "#/search", statuses: [0] }, async ({ page, standin }) => {
    await says(page, ".status", FOUND);
    standin.hold();
    await search(page, "a");
    await page.locator(".event").first().waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await says(page, ".status", "Cancelled");
    await until(page, () => standin.cancelled === 1);
    standin.letGo();
    await search(page, "e");
    await says(page, ".status", FOUND);
  }));

test("a server that fails says so, and the page works again when it does", () =>
  visit({ path: "#/search", statuses: [503] }, async ({ page, standin }) => {
    await says(page, ".status", FOUND);
    standin.failing = true;
    await search(page, "a");
    await says(page, ".query-error", "told to fail");
    standin.failing = false;
    await page.getByRole("button", { name: "Search", exact: true }).click();
    await says(page, ".status", FOUND);
  }));

test("live tail: events as they come, a pause that loses none, and lag is said", () =>
  visit({ path: "#/search?tail=1", statuses: [0, 400] }, async ({ page, standin }) => {
    await says(page, ".empty", "Waiting for events");
    let number = numberNow();
    const push = (n: number) => {
      for (let i = 0; i < n; i += 1) {
        number += 1;
        standin.pushTail(number);
      }
    };
    push(3);
    await page.waitForFunction(() => document.querySelectorAll(".event").length === 3);
    await page.getByRole("button", { name: "Pause" }).click();
    push(5);
    await says(page, ".status", "Paused · 5 new");
    assert.equal(await page.locator(".event").count(), 3, "it holds still");
    await shot(page, "search-tail");
    await page.getByRole("button", { name: "Go on" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".event").length === 8);
    standin.pushLag(17);
    await says(page, ".status", "17 events left out");
    standin.breakStreams();
    await until(page, () => standin.tails === 1);
    push(1);
    await page.waitForFunction(() => document.querySelectorAll(".event").length === 9);
    push(1200);
    await says(page, ".status", "1,209 events");
    assert.equal(await page.locator(".event").count(), 500, "bounded");
    await search(page, "(open");
    await says(page, ".query-error", "Column 1");
    await page.getByRole("button", { name: "Live tail" }).click();
    await until(page, () => standin.tails === 0);
  }));

test("a shared link shows the same, with the times fixed", () =>
  visit(
    {
      path: "#/search?q=host%3Dfw*&since=1h",
      context: { permissions: ["clipboard-read", "clipboard-write"] },
    },
    async ({ page, standin }) => {
      await says(page, ".status", FOUND);
      const before = await page.locator(".event-time").allTextContents();
      await page.getByRole("button", { name: "Share" }).click();
      await says(page, ".notice", "Link copied");
      const link = await page.evaluate(() => navigator.clipboard.readText());
      assert.match(link, /#\/search\?q=host%3Dfw\*&since=\d{13}&until=\d{13}$/);
      assert.ok(link.startsWith(standin.url));
      await page.goto("about:blank");
      await page.goto(link);
      await says(page, ".status", FOUND);
      assert.deepEqual(await page.locator(".event-time").allTextContents(), before);
    },
  ));

test("export is a download of the same query", () =>
  visit({ path: "#/search?q=host%3Dfw*&since=1h" }, async ({ page, standin }) => {
    await says(page, ".status", FOUND);
    for (const format of ["JSON", "CSV"]) {
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("link", { name: format }).click(),
      ]);
      assert.equal(download.suggestedFilename(), `inrush-search.${format.toLowerCase()}`);
    }
    assert.ok(standin.asked.includes("GET /api/v1/export?q=host%3Dfw*&since=1h&format=csv"));
  }));

test("over everything: progress, and the page stays alive", () =>
  visit({ path: "#/search?since=all&q=%7C%20count%20by%20sourcetype" }, async ({ page }) => {
    await says(page, ".status", /rows from/);
    assert.ok((await page.locator("tbody tr").count()) >= 7);
  }));
