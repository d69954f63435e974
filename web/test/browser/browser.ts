// What the browser tests share: a browser, a stand-in server for each test, and a witness that
// sees every request, console message and fault of the page.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { after } from "node:test";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { type Options, Standin } from "../../dev/standin";

let browser: Promise<Browser> | null = null;

after(async () => {
  await (await browser)?.close();
});

function launched(): Promise<Browser> {
  browser ??= chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // The tests load nothing but our own page from loopback, often as root in a container.
    args: ["--no-sandbox"],
  });
  return browser;
}

/** How a window is opened. */
export interface Window {
  width?: number;
  theme?: "light" | "dark";
  path?: string;
  context?: BrowserContextOptions;
  /** Statuses that the test provokes, which a browser reports on its console. */
  statuses?: number[];
}

export interface Visit extends Window {
  server?: Partial<Options>;
}

export interface Visited {
  page: Page;
  standin: Standin;
}

/** Opens the page on a stand-in server and does `work`; then asserts what must always hold. */
export async function visit(how: Visit, work: (visited: Visited) => Promise<void>): Promise<void> {
  const standin = await Standin.start(how.server);
  try {
    await open(standin.url, how, (page) => work({ page, standin }));
  } finally {
    await standin.stop();
  }
}

/** Opens the page at `home` and does `work`; then asserts what must hold after any work. */
export async function open(
  home: string,
  how: Window,
  work: (page: Page) => Promise<void>,
): Promise<void> {
  const context = await (await launched()).newContext({
    viewport: { width: how.width ?? 1280, height: 900 },
    colorScheme: how.theme ?? "light",
    timezoneId: "Europe/Zurich",
    reducedMotion: "reduce",
    isMobile: (how.width ?? 1280) < 600,
    ...how.context,
  });
  // A test that passes never waits so long; a machine that is busy with other things may.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const wrong = witness(page, home, how.statuses ?? []);
  try {
    await page.addInitScript(watchShifts);
    await page.goto(`${home}${how.path ?? ""}`);
    await work(page);
    assert.equal(await page.evaluate("window.hacked"), undefined, "an attack was executed");
    assert.deepEqual(wrong, []);
  } finally {
    await context.close();
  }
}

function witness(page: Page, home: string, statuses: number[]): string[] {
  const wrong: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(home) && !request.url().startsWith("data:")) {
      wrong.push(`a request to ${request.url()}`);
    }
  });
  page.on("console", (message) => {
    const text = message.text();
    const provoked = statuses.some((status) => text.includes(`status of ${status}`));
    const cut = statuses.includes(0) && text.includes("net::ERR_");
    if (["error", "warning"].includes(message.type()) && !provoked && !cut) {
      wrong.push(`console: ${text}`);
    }
  });
  page.on("pageerror", (error) => wrong.push(`a fault: ${error.message}`));
  page.on("dialog", (dialog) => {
    wrong.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return wrong;
}

/** Runs in the page: sums up how far things jumped without anybody having touched them. */
function watchShifts(): void {
  const state = globalThis as unknown as { shifts: number; shifted: string[] };
  state.shifts = 0;
  state.shifted = [];
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) {
      const shift = one as PerformanceEntry & {
        value: number;
        hadRecentInput: boolean;
        sources?: { node?: Node; previousRect: DOMRect; currentRect: DOMRect }[];
      };
      if (!shift.hadRecentInput) {
        state.shifts += shift.value;
        for (const { node, previousRect: a, currentRect: b } of shift.sources ?? []) {
          const home = node instanceof Element ? node : node?.parentElement;
          const moved = `${a.x},${a.y} ${a.width}×${a.height} to ${b.x},${b.y} ${b.width}×${b.height}`;
          state.shifted.push(`${moved}: ${home?.outerHTML.slice(0, 90)}`);
        }
      }
    }
  }).observe({ type: "layout-shift", buffered: true });
}

/** Nothing jumps, and nothing is wider than the window. */
export async function assertSteady(page: Page): Promise<void> {
  const seen = await page.evaluate(() => {
    const state = globalThis as unknown as { shifts: number; shifted: string[] };
    return {
      shifts: state.shifts,
      shifted: state.shifted,
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    };
  });
  assert.ok(seen.shifts < 0.02, `jumped by ${seen.shifts}: ${seen.shifted.join("\n")}`);
  assert.ok(seen.wide <= 0, `${seen.wide} px too wide`);
}

/** Text whose contrast to its ground is below WCAG AA. */
export async function assertContrast(page: Page): Promise<void> {
  const faint = await page.evaluate(() => {
    const numbers = (text: string) => (text.match(/[\d.]+/g) ?? []).map(Number);
    const linear = (c: number) => {
      const s = c / 255;
      return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    };
    const luminance = ([r = 0, g = 0, b = 0]: number[]) =>
      0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const groundOf = (start: Element): number[] => {
      for (let one: Element | null = start; one; one = one.parentElement) {
        const [r = 0, g = 0, b = 0, a = 1] = numbers(getComputedStyle(one).backgroundColor);
        if (a > 0.99) {
          return [r, g, b];
        }
      }
      return [255, 255, 255];
    };
    const found: string[] = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      const text = (node.nodeValue ?? "").trim();
      if (!parent || text === "" || parent.closest("noscript,:disabled,.off-screen,option")) {
        continue;
      }
      if (!parent.checkVisibility() || parent.getBoundingClientRect().width === 0) {
        continue;
      }
      const style = getComputedStyle(parent);
      const inSvg = parent instanceof SVGElement;
      const [light, dark] = [
        luminance(numbers(inSvg ? style.fill : style.color)),
        luminance(groundOf(parent)),
      ].sort((a, b) => b - a) as [number, number];
      const ratio = (light + 0.05) / (dark + 0.05);
      const size = Number.parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5)) {
        found.push(
          `${ratio.toFixed(2)} ${parent.tagName}.${parent.className}: ${text.slice(0, 40)}`,
        );
      }
    }
    return [...new Set(found)];
  });
  assert.deepEqual(faint, []);
}

/** Every control has a name that is read out. */
export async function assertNamed(page: Page): Promise<void> {
  const nameless = await page.evaluate(() =>
    [...document.querySelectorAll("button, a, input, select, textarea")]
      .filter((one) => one.checkVisibility())
      .filter((one) => {
        const labels = (one as HTMLInputElement).labels;
        const text = one.getAttribute("aria-label") ?? one.textContent ?? "";
        return text.trim() === "" && !labels?.length;
      })
      .map((one) => one.outerHTML.slice(0, 120)),
  );
  assert.deepEqual(nameless, []);
}

/** Keeps a picture where SHOTS says so; without it, none. */
export async function shot(page: Page, name: string, fullPage = false): Promise<void> {
  const folder = process.env.SHOTS;
  if (folder) {
    await mkdir(folder, { recursive: true });
    await page.screenshot({ path: `${folder}/${name}.png`, fullPage });
  }
}

/** Waits until the page says it. */
export async function says(page: Page, selector: string, text: string | RegExp): Promise<void> {
  await page.locator(selector).filter({ hasText: text }).first().waitFor();
}

/** Waits until something outside the page is so; the page's own clock paces the looking. */
export async function until(page: Page, is: () => boolean): Promise<void> {
  while (!is()) {
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
}
