import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { assertContrast, assertNamed, assertSteady, says, shot, visit } from "./browser";

/** Each page, and what tells that it is all there. */
const PAGES: Record<string, (page: Page) => Promise<void>> = {
  flow: async (page) => {
    await says(page, ".tile-value", /\d \/s/);
    await page.locator(".node").first().waitFor();
    await twoMoreSnapshots(page);
    await page.waitForFunction(
      () => (document.querySelector(".spark path")?.getAttribute("d")?.length ?? 0) > 800,
    );
  },
  search: async (page) => {
    await says(page, ".status", /events.* in /);
    await page.locator(".u-over").waitFor();
    await page.locator(".event").first().waitFor();
  },
  doors: async (page) => {
    await page.locator("tbody tr").nth(5).waitFor();
    await says(page, ".door-rate", /[1-9]/);
  },
  files: async (page) => {
    await page.locator(".workloads-panel tbody tr").nth(5).waitFor();
    await says(page, ".files-panel", "the permission to read it is missing");
    await says(page, ".file-rate", /[1-9]/);
  },
  senders: (page) => page.locator("tbody tr").nth(20).waitFor(),
  health: async (page) => {
    await page.locator(".alarm").first().waitFor();
    await page.locator(".entry").first().waitFor();
  },
};

async function twoMoreSnapshots(page: Page): Promise<void> {
  const values = () => page.locator(".tiles").innerText();
  for (let before = await values(), n = 0; n < 2; n += 1) {
    await page.waitForFunction(
      (old) => (document.querySelector(".tiles") as HTMLElement).innerText !== old,
      before,
    );
    before = await values();
  }
}

for (const [name, ready] of Object.entries(PAGES)) {
  for (const theme of ["light", "dark"] as const) {
    for (const width of [1280, 390]) {
      test(`${name}, ${theme}, ${width} px: complete, steady, readable`, () =>
        visit(
          { path: `#/${name}`, theme, width, server: { speed: name === "flow" ? 40 : 1 } },
          async ({ page }) => {
            await ready(page);
            await shot(page, `${name}-${theme}-${width}`, name !== "search");
            await assertSteady(page);
            await assertContrast(page);
            await assertNamed(page);
            assert.equal(await page.locator("nav [aria-current=page]").count(), 1);
          },
        ));
    }
  }
}

for (const [name, width] of [
  ["flow", 1280],
  ["flow", 390],
  ["health", 1280],
  ["health", 390],
] as const) {
  test(`${name}, ${width} px: numbers that come late move nothing`, () =>
    visit({ path: `#/${name}`, width, server: { silent: true, speed: 40 } }, async (visited) => {
      const { page, standin } = visited;
      await says(page, "main", /Waiting for the first|Asking/);
      await page.evaluate(
        () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
      );
      standin.silent = false;
      await PAGES[name]?.(page);
      await assertSteady(page);
    }));
}

test("the flow says that it lost its server, and finds it again", () =>
  visit({ statuses: [503, 0] }, async ({ page, standin }) => {
    await says(page, ".connection", "live");
    standin.failing = true;
    standin.breakStreams();
    await says(page, ".connection", "reconnecting since");
    assert.ok(await page.locator(".flow.stale").isVisible(), "old numbers look old");
    standin.failing = false;
    await says(page, ".connection", "live");
  }));

test("every edge has its events a second, in the drawing and as text", () =>
  visit({}, async ({ page }) => {
    await says(page, ".edge-rate", /[\d,]+\/s/);
    assert.equal(await page.locator(".edge-rate").count(), 3 + 1 + 4);
    const routes = page.getByRole("region", { name: "Routes" }).locator("tbody tr");
    assert.equal(await routes.count(), 3 * 4 + 1);
  }));

test("the loss map: calm where nothing is lost, red with a hint where something is", () =>
  visit({}, async ({ page }) => {
    await says(page, ".place.rising", "Sockets");
    await says(page, ".place.lost", "Destinations");
    await says(page, ".place.meant", "Filter");
    await says(page, ".place.calm", "Queue");
    await says(page, ".hint", "whole host");
    await says(page, ".hint", "net.core.rmem_max");
  }));

test("a store says what it has, and what was taken from it", () =>
  visit({}, async ({ page }) => {
    await says(page, ".card-stored", "searchable");
    await says(page, ".card-stored", "deleted by retention");
    await says(page, ".card-stored .bad-text", "deleted for room");
    const outside = await page.locator(".card.keeps").evaluate((card) => {
      const { right, bottom } = card.getBoundingClientRect();
      const parts = [...card.querySelectorAll(".card-stored > *, .card-error")];
      const boxes = parts.map((part) => part.getBoundingClientRect());
      return boxes.some((box) => box.right > right || box.bottom > bottom);
    });
    assert.equal(outside, false, "nothing of it is cut off");
  }));

test("all well: nothing is red", () =>
  visit({ server: { calm: true } }, async ({ page }) => {
    await says(page, ".place", "none");
    await shot(page, "flow-calm");
    for (const red of [".bad", ".bad-text", ".lost", ".rising"]) {
      assert.equal(await page.locator(`main ${red}`).count(), 0, red);
    }
    await page.keyboard.press("g");
    await page.keyboard.press("h");
    await says(page, ".status", "All is well");
  }));

test("a machine that has received nothing says how to send a first event", () =>
  visit({ server: { empty: true, calm: true } }, async ({ page }) => {
    await says(page, ".first code", "logger --server 127.0.0.1 --port 5514 --tcp");
    await says(page, ".first", "listens on udp port 5514, tcp port 5514, tls port 6514");
    await shot(page, "flow-empty");
    await page.goto(`${page.url().split("#")[0]}#/search?since=all`);
    await says(page, ".empty", "No events yet");
    await shot(page, "search-empty");
    await page.goto(`${page.url().split("#")[0]}#/senders`);
    await says(page, ".empty", "Nobody has sent anything yet");
  }));

test("the keyboard alone", () =>
  visit({}, async ({ page }) => {
    await says(page, ".connection", "live");
    const title = (text: string) =>
      page.waitForFunction((t) => document.title === t, `${text} · Inrush`);
    for (const [key, name] of [
      ["s", "Search"],
      ["n", "Senders"],
      ["h", "Health"],
      ["f", "Flow"],
    ] as const) {
      await page.keyboard.press("g");
      await page.keyboard.press(key);
      await title(name);
    }
    await page.keyboard.press("?");
    await says(page, "dialog[open]", "Keyboard");
    await shot(page, "help");
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("/");
    await page.waitForFunction(() => document.activeElement?.id === "query");
    await page.keyboard.type("gh?/t");
    assert.equal(await page.inputValue("#query"), "gh?/t", "what is typed is typed");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.activeElement?.id !== "query");
    await page.locator(".event").first().waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("k");
    await page.keyboard.press("Enter");
    await page.locator(".event").nth(0).locator(".detail").waitFor();
  }));

test("what is typed as soon as the query can be typed into stays", () =>
  visit({}, async ({ page }) => {
    await says(page, ".connection", "live");
    await page.evaluate(
      () =>
        new Promise<void>((drawn) => {
          new MutationObserver((_, observer) => {
            const box = document.querySelector<HTMLInputElement>("#query");
            if (box) {
              observer.disconnect();
              box.value = "g";
              box.dispatchEvent(new Event("input", { bubbles: true }));
              drawn();
            }
          }).observe(document.body, { childList: true, subtree: true });
          location.hash = "#/search";
        }),
    );
    await page.locator(".event").first().waitFor();
    assert.equal(await page.inputValue("#query"), "g");
  }));

test("the focus is seen wherever it goes", () =>
  visit({ path: "#/search" }, async ({ page }) => {
    await page.locator(".event").first().waitFor();
    for (let i = 0; i < 40; i += 1) {
      await page.keyboard.press("Tab");
      const seen = await page.evaluate(() => {
        const style = getComputedStyle(document.activeElement as Element);
        return style.outlineStyle !== "none" && Number.parseFloat(style.outlineWidth) >= 2;
      });
      assert.ok(seen, await page.evaluate(() => document.activeElement?.outerHTML.slice(0, 200)));
    }
  }));

test("the colours follow the system until they are chosen, and the choice is kept", () =>
  visit({ theme: "dark" }, async ({ page }) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await says(page, ".connection", "live");
    const dark = await ground();
    await page.emulateMedia({ colorScheme: "light" });
    const light = await ground();
    assert.notEqual(light, dark);
    await page.keyboard.press("t");
    assert.equal(await ground(), light, "chosen light");
    await page.keyboard.press("t");
    assert.equal(await ground(), dark, "chosen dark");
    await page.reload();
    assert.equal(await ground(), dark, "kept, and there from the first paint");
    await says(page, ".connection", "live");
    await page.getByRole("button", { name: /Colours: dark/ }).click();
    assert.equal(await ground(), light, "back to the system's");
  }));

test("an alarm leads on, to a page or to a guide", () =>
  visit({ path: "#/health" }, async ({ page }) => {
    await says(page, ".alarm", "More about it");
    const links = await page.locator(".alarm a").evaluateAll((all) => all.map(String));
    assert.ok(
      links.some((link) => link.endsWith("#/flow")),
      `${links}`,
    );
    const guide = links.find((link) => link.endsWith("/docs/guides/udp-loss.md#what-to-do"));
    assert.ok(guide, `${links}`);
  }));

test("the header is red while something is, and counts the alarms", () =>
  visit({}, async ({ page }) => {
    await says(page, ".connection.bad", "alarm");
    await page.locator("header.head.bad").waitFor();
  }));
