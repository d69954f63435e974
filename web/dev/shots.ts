// Pictures of a running Inrush for docs/images: `npm run shots -- http://127.0.0.1:8686/ FOLDER`.
// Names behind the folder are the only pictures made then. `make run` and `make demo` beside it for two minutes give it something to show.

import { chromium, type Page } from "playwright-core";

const [url = "http://127.0.0.1:8686/", folder = "../docs/images", ...only] = process.argv.slice(2);

type View = ["dark" | "light", string, (page: Page) => Promise<unknown>];

/** The theme, what is behind the `#`, and what is done before the picture. */
const VIEWS: Record<string, View> = {
  flow: ["dark", "#/flow", (page) => page.waitForTimeout(45_000)],
  search: [
    "light",
    "#/search?q=index%3Dmain",
    async (page) => {
      await page.locator(".event-line").nth(2).click();
      await page.locator(".detail-parsed").first().waitFor();
    },
  ],
  table: [
    "dark",
    "#/search?q=%7C%20count%20by%20host%2C%201m",
    (page) => page.locator(".legend li").first().waitFor(),
  ],
  doors: [
    "light",
    "#/doors",
    // Rates and lags are those of the last seconds.
    (page) => page.waitForTimeout(12_000),
  ],
  senders: ["light", "#/senders", (page) => page.locator("tbody tr").first().waitFor()],
  health: ["dark", "#/health", (page) => page.locator(".edge").first().waitFor()],
};

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
for (const [name, [theme, hash, ready]] of Object.entries(VIEWS)) {
  if (only.length > 0 && !only.includes(name)) {
    continue;
  }
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    colorScheme: theme,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  await page.goto(`${url}${hash}`);
  await ready(page);
  await page.screenshot({ path: `${folder}/${name}.png` });
  console.log(`${folder}/${name}.png`);
  await context.close();
}
await browser.close();
