// The page on the built binary: `npm run test:real`, with INRUSH_BIN where the binary is not in
// ../target/debug. Nothing is skipped: without binary, Chromium or openssl it fails and says so.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Page } from "playwright-core";
import { ATTACKS } from "../../dev/events";
import { assertContrast, assertNamed, assertSteady, open, says, shot } from "../browser/browser";
import { Collector, eventually, Inrush, newFolder } from "./inrush";

const PASSWORD = "correct horse battery";
const TOKEN = "0123456789abcdef0123456789abcdef";
const FOUND = /events?.* in /;

/** What the browser's console says of a stream that ended with the page that read it. */
const CUT = [0];

/** Events that are sent before all tests. */
const EVENTS = 1200;

let inrush: Inrush;
let collector: Collector;

function config(admin: string, more = ""): string {
  return `
admin: { listen: 127.0.0.1:0${admin} }
sources:
  syslog: { type: syslog, listen: [tcp://127.0.0.1:0] }
destinations:
  local: { type: store }
${more}`;
}

/** RFC 5424, of `host` and now, or so many minutes later. */
function event(host: string, app: string, text: string, severity = 6, later = 0): string {
  const priority = 8 * 16 + severity;
  const time = new Date(Date.now() + later * 60_000).toISOString();
  return `<${priority}>1 ${time} ${host} ${app} 42 - - ${text}`;
}

/** An attack in each field that a sender chooses; the header's fields take no spaces. */
function hostile(attack: string): string {
  const bare = attack.replace(/[^\x21-\x7e]/g, "").slice(0, 40) || "-";
  const param = attack.replace(/[\\"\]]/g, "\\$&");
  const data = `[x@1 note="${param}" __proto__="polluted"]`;
  const now = new Date().toISOString();
  return `<132>1 ${now} ${bare} ${bare} ${bare} ${bare} ${data} ${attack}`.replace(/\n/g, " ");
}

before(async () => {
  collector = await Collector.start();
  const hec = `  splunk:
    type: splunk_hec
    endpoints: ["${collector.url}"]
    token: t
    batch: { max_events: 1 }`;
  inrush = await Inrush.start(config("", hec));
  const lines = Array.from({ length: EVENTS }, (_, n) =>
    event(`fw-${n % 3}`, n % 2 ? "sshd" : "kernel", `number ${n} of the test`, n % 8),
  );
  const poison = event("fw-0", "app", "poison for HEC");
  const ahead = [1, 2].map((n) => event("nas-1", "storaged", `ahead ${n}`, 6, 11));
  await inrush.send([...lines, ...ATTACKS.map(hostile), poison, ...ahead]);
  await inrush.searchable(EVENTS + ATTACKS.length + 3);
});

after(async () => {
  await inrush?.stop();
  await collector?.stop();
});

async function search(page: Page, query: string): Promise<void> {
  await page.fill("#query", query);
  await page.press("#query", "Enter");
  await page.waitForFunction(
    (q) => new URLSearchParams(location.hash.split("?")[1]).get("q") === q,
    query,
  );
  await says(page, ".status", FOUND);
}

/** Each page, and what tells that it is there with what the process really says. */
const PAGES: Record<string, (page: Page) => Promise<void>> = {
  flow: async (page) => {
    // The collector of these tests refuses events, which is an alarm sooner or later.
    await says(page, ".connection", /^live · (balanced|\d+ alarms?)$/);
    await says(page, ".node", "syslog");
    await says(page, ".node", "local");
    await page.locator(".place").first().waitFor();
  },
  search: async (page) => {
    await says(page, ".status", FOUND);
    await page.locator(".event").first().waitFor();
    await page.locator(".u-over").waitFor();
  },
  doors: async (page) => {
    await says(page, "tbody tr", "syslog");
    await says(page, ".door-rate", /\d/);
  },
  senders: (page) => says(page, "tbody tr", "127.0.0.1"),
  health: (page) => page.locator(".edge").nth(3).waitFor(),
};

for (const [name, ready] of Object.entries(PAGES)) {
  for (const theme of ["light", "dark"] as const) {
    for (const width of [1280, 390]) {
      test(`${name}, ${theme}, ${width} px, from the binary`, () =>
        open(inrush.url, { path: `#/${name}`, theme, width, statuses: CUT }, async (page) => {
          await ready(page);
          await shot(page, `real-${name}-${theme}-${width}`, name !== "search");
          await assertSteady(page);
          await assertContrast(page);
          await assertNamed(page);
        }));
    }
  }
}

test("the page is two small files, packed; its first paint is told", () =>
  open(inrush.url, { statuses: CUT }, async (page) => {
    await says(page, ".connection", "live");
    const seen = await page.evaluate(() => {
      const files = performance.getEntriesByType("resource") as PerformanceResourceTiming[];
      const paint = performance.getEntriesByName("first-contentful-paint")[0];
      const assets = files.filter((one) => /\.(js|css)$/.test(one.name));
      return {
        paint_ms: paint?.startTime ?? Number.NaN,
        bytes: assets.reduce((sum, one) => sum + one.encodedBodySize, 0),
        assets: assets.length,
      };
    });
    console.log(`first paint ${seen.paint_ms.toFixed(0)} ms, ${seen.bytes} bytes of assets`);
    assert.equal(seen.assets, 2);
    assert.ok(seen.bytes > 10_000 && seen.bytes < 300_000, `${seen.bytes} bytes`);
  }));

test("what was sent is found, opened, and asked further about", () =>
  open(inrush.url, { path: "#/search?since=1h", statuses: CUT }, async (page) => {
    await search(page, '"number 77 of"');
    await says(page, ".status", /\b1 event\b/);
    await says(page, ".event mark", "number 77 of");
    await page.locator(".event-line").first().click();
    await says(page, ".detail-raw", "number 77 of the test");
    await says(page, ".detail-parsed", "sshd");
    await page.getByRole("button", { name: "Search for this host" }).first().click();
    await page.waitForFunction(() => location.hash.includes("host"));
    await says(page, ".status", FOUND);
    await search(page, "host=fw-1 severity<=3");
    // What was found before stays until the first of these is there.
    await page.waitForFunction(() => {
      const hosts = [...document.querySelectorAll(".event-host")];
      return hosts.length > 0 && hosts.every((host) => host.textContent?.trim() === "fw-1");
    });
  }));

test("a drag over the histogram narrows the time", () =>
  open(inrush.url, { path: "#/search?since=15m", statuses: CUT }, async (page) => {
    await says(page, ".status", FOUND);
    const over = await page.locator(".u-over").boundingBox();
    assert.ok(over);
    await page.mouse.move(over.x + over.width * 0.6, over.y + over.height / 2);
    await page.mouse.down();
    await page.mouse.move(over.x + over.width * 0.999, over.y + over.height / 2, { steps: 5 });
    await page.mouse.up();
    await page.waitForFunction(() => /since=\d{13}&until=\d{13}/.test(location.hash));
    await says(page, ".status", FOUND);
  }));

test("a table, and what is wrong with a query, at its column", () =>
  open(inrush.url, { path: "#/search?since=1h", statuses: [400, 0] }, async (page) => {
    await search(page, "number | count by host");
    await says(page, ".grid td, .grid th", "fw-2");
    await says(page, ".grid td", "400");
    await page.fill("#query", "host=fw-1 (");
    await page.press("#query", "Enter");
    await page.locator("[role=alert]").filter({ hasText: /\S/ }).first().waitFor();
  }));

test("groups have names, and a table says how much of it is shown", () =>
  open(inrush.url, { path: "#/search?since=1h", statuses: CUT }, async (page) => {
    await search(page, "number | count by severity, 1m");
    await says(page, ".legend", "err");
    await says(page, ".grid td", "warning");
    await shot(page, "real-severities");
    await search(page, "number | sort -host");
    await says(page, ".status", "the latest 200 shown");
    await page.locator(".event").nth(100).waitFor();
  }));

test("what is dated in the future is a link with its number", () =>
  open(inrush.url, { path: "#/search?since=15m&q=ahead", statuses: CUT }, async (page) => {
    await says(page, ".empty", "No events match");
    await shot(page, "real-future");
    await page.getByRole("button", { name: "2 events are dated in the future" }).click();
    await page.waitForFunction(() => location.hash.includes("until=all"));
    await says(page, ".event", "ahead 2");
  }));

test("a sender's events are found by a click, and habits of other products get a hint", () =>
  open(inrush.url, { path: "#/senders", statuses: CUT }, async (page) => {
    await page.getByRole("link", { name: "127.0.0.1" }).first().click();
    await page.waitForFunction(() => location.hash.includes("sender%3D127.0.0.1"));
    await page.locator(".event").nth(100).waitFor();
    await page.fill("#query", "host:fw-1");
    await page.press("#query", "Enter");
    await says(page, ".empty", "host=fw-1");
    await shot(page, "real-hint");
  }));

test("an event shows in a live tail as it comes", () =>
  open(inrush.url, { path: "#/search?tail=1&q=tailed", statuses: CUT }, async (page) => {
    await eventually("the tailed event", async () => {
      await inrush.send([event("fw-tail", "app", "tailed as it came")]);
      return (await page.locator(".event").count()) > 0 ? true : null;
    });
    await says(page, ".event", "tailed as it came");
  }));

test("a sender is known, and a sample of it explained", () =>
  open(inrush.url, { path: "#/senders", statuses: CUT }, async (page) => {
    await says(page, "tbody tr", "127.0.0.1");
    await page
      .getByRole("button", { name: /^Explain a sample/ })
      .first()
      .click();
    await says(page, "dialog .explained", "rfc5424");
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
  }));

test("quarantine: what the collector refused is seen, and taken once it is healed", () =>
  open(inrush.url, { path: "#/health", statuses: CUT }, async (page) => {
    await says(page, ".entry", "splunk");
    await page.locator(".entry summary").first().click();
    await says(page, ".entry-detail", "poison for HEC");
    await page.selectOption('select[aria-label="Reason"]', { index: 1 });
    collector.healed = true;
    await page.getByRole("button", { name: "Replay all that fit" }).click();
    await page.getByRole("button", { name: "Replay", exact: true }).click();
    await says(page, ".notice", "1 event sent again");
    await eventually("the collector to have it", () =>
      collector.taken.some((body) => body.includes("poison for HEC")) ? true : null,
    );
  }));

/** Nothing that an event brought became an element. */
async function assertHarmless(page: Page): Promise<void> {
  const found = await page.evaluate(() => ({
    elements: document.querySelectorAll("#app img, #app script, #app iframe, #app svg[onload]")
      .length,
    handlers: [...document.querySelectorAll("*")].filter((one) =>
      [...one.attributes].some(({ name }) => name.startsWith("on")),
    ).length,
    hacked: (globalThis as { hacked?: number }).hacked,
    polluted: ({} as { polluted?: string }).polluted,
  }));
  assert.deepEqual(found, { elements: 0, handlers: 0, hacked: undefined, polluted: undefined });
}

test("attacks in every field of an event stay text on every page", () =>
  open(inrush.url, { path: "#/search?since=1h", statuses: [400, 0] }, async (page) => {
    await search(page, "severity=warning facility=local0 hacked");
    const lines = page.locator(".event-line");
    await lines.first().waitFor();
    const count = Math.min(await lines.count(), ATTACKS.length);
    assert.ok(count > 0);
    for (let n = 0; n < count; n += 1) {
      await lines.nth(n).click();
    }
    await page.locator(".detail-parsed").first().waitFor();
    for (const field of await page.locator(".field summary").all()) {
      await field.click();
    }
    await shot(page, "real-hostile-search");
    await assertHarmless(page);
    await page.locator(".detail").first().getByRole("button", { name: "Explain" }).click();
    await page.locator("dialog .explained").waitFor();
    await assertHarmless(page);
    await page.keyboard.press("Escape");
    await search(page, "hacked | count by host, app");
    await page.locator(".grid td").first().waitFor();
    await assertHarmless(page);
    for (const attack of ATTACKS) {
      const q = encodeURIComponent(attack);
      await page.goto(`${inrush.url}#/search?q=${q}&since=${q}&until=${q}`);
      await page.locator("#query").waitFor();
      await assertHarmless(page);
    }
    for (const name of ["flow", "senders", "health"]) {
      await page.goto(`${inrush.url}#/${name}`);
      await PAGES[name]?.(page);
      await assertHarmless(page);
    }
  }));

async function enter(page: Page, password: string): Promise<void> {
  await page.fill("#password", password);
  await page.press("#password", "Enter");
}

for (const theme of ["light", "dark"] as const) {
  test(`login, ${theme}: wrong, right, a change, a reload of the page, logout`, async () => {
    const locked = await Inrush.start(config(`, password: "${PASSWORD}", tokens: ["${TOKEN}"]`));
    try {
      const how = { path: "#/senders", theme, statuses: [401, 0] };
      await open(locked.url, how, async (page) => {
        await says(page, ".login", "Password");
        await shot(page, `real-login-${theme}`);
        await assertContrast(page);
        await assertSteady(page);
        await enter(page, "not this horse");
        await says(page, ".problem", "That is not the password");
        await enter(page, PASSWORD);
        await says(page, "h1", "Senders");
        const [cookie] = await page.context().cookies();
        assert.ok(cookie?.httpOnly && cookie.sameSite === "Strict", JSON.stringify(cookie));
        assert.equal(await page.evaluate("document.cookie"), "");
        await locked.send([event("fw-9", "app", "for a sample")]);
        await says(page, "tbody tr", "127.0.0.1");
        // A change, with the session's token: explain is a POST.
        await page
          .getByRole("button", { name: /^Explain a sample/ })
          .first()
          .click();
        await says(page, "dialog .explained", "rfc5424");
        await page.keyboard.press("Escape");
        await page.reload();
        await says(page, "tbody tr", "127.0.0.1");
        await page.getByRole("button", { name: "Log out admin" }).click();
        await says(page, ".login", "Password");
        const status = await page.evaluate(() => fetch("api/v1/ledger").then((one) => one.status));
        assert.equal(status, 401);
      });
      const ledger = await locked.json<{ balanced: boolean }>("api/v1/ledger", {
        authorization: `Bearer ${TOKEN}`,
      });
      assert.equal(ledger.balanced, true);
    } finally {
      await locked.stop();
    }
  });
}

test("guessing is slowed down, and the page says for how long", async () => {
  const locked = await Inrush.start(config(`, password: "${PASSWORD}"`));
  try {
    await open(locked.url, { statuses: [401, 429, 0] }, async (page) => {
      for (let n = 0; n < 3; n += 1) {
        await enter(page, `guess ${n}`);
        await page.waitForFunction(() => !document.querySelector("button[type=submit]:disabled"));
        await says(page, ".problem", "That is not the password");
      }
      await enter(page, PASSWORD);
      await says(page, ".problem", /try again in \d+ s/);
    });
  } finally {
    await locked.stop();
  }
});

test("over TLS: the same page, and a cookie for https alone", async () => {
  const dir = await newFolder();
  const [cert, key] = [join(dir, "admin.pem"), join(dir, "admin.key")];
  const made = `req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout ${key} -out`;
  execFileSync("openssl", [...made.split(" "), cert], { stdio: "ignore" });
  const tls = `, password: "${PASSWORD}", tls: { cert_file: "${cert}", key_file: "${key}" }`;
  const locked = await Inrush.start(config(tls), dir);
  try {
    assert.match(locked.url, /^https:/);
    const context = { ignoreHTTPSErrors: true };
    await open(locked.url, { context, statuses: [401, 0] }, async (page) => {
      await enter(page, PASSWORD);
      await says(page, ".connection", "live");
      const [cookie] = await page.context().cookies();
      assert.ok(cookie?.secure && cookie.name.startsWith("__Host-"), JSON.stringify(cookie));
    });
  } finally {
    await locked.stop();
  }
});
