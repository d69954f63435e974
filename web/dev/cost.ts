// What the open page costs: CPU time of the whole browser and of its page, measured over some
// time. A figure for people, not a test: `npm run cost -- 30`.

import { readdirSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { Standin } from "./standin";

const SECONDS = Number(process.argv[2] ?? "20");

/** Clock ticks a second of /proc/PID/stat on Linux. */
const TICKS = 100;

/** CPU seconds of a process and all its descendants. */
function cpuSeconds(root: number): number {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        const rest = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        const ticks = Number(rest[11]) + Number(rest[12]);
        return [{ pid: Number(name), parent: Number(rest[1]), ticks }];
      } catch {
        return [];
      }
    });
  const wanted = new Set([root]);
  for (let grown = -1; grown !== wanted.size; ) {
    grown = wanted.size;
    for (const one of all) {
      if (wanted.has(one.parent)) {
        wanted.add(one.pid);
      }
    }
  }
  const ticks = all.filter((one) => wanted.has(one.pid)).reduce((n, one) => n + one.ticks, 0);
  return ticks / TICKS;
}

const standin = await Standin.start();
const server = await chromium.launchServer({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
const browser = await chromium.connect(server.wsEndpoint());
const pid = server.process().pid ?? 0;
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const wait = (seconds: number) => new Promise((done) => setTimeout(done, 1000 * seconds));

for (const [name, url] of [
  ["about:blank", "about:blank"],
  ["flow", `${standin.url}#/flow`],
  ["search, at rest", `${standin.url}#/search?since=1h`],
] as const) {
  await page.goto(url);
  await wait(5);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const metrics = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map((one) => [one.name, one.value]));
  };
  const [cpu, before] = [cpuSeconds(pid), await metrics()];
  await wait(SECONDS);
  const [used, after] = [cpuSeconds(pid) - cpu, await metrics()];
  const share = (seconds: number) => `${((100 * seconds) / SECONDS).toFixed(2)} %`;
  const part = (what: string) => share((after[what] ?? 0) - (before[what] ?? 0));
  console.log(
    `${name}: browser ${share(used)} of a core; main thread ${part("TaskDuration")}, of it ` +
      `script ${part("ScriptDuration")}, style ${part("RecalcStyleDuration")}, ` +
      `layout ${part("LayoutDuration")}`,
  );
  await session.detach();
}
await browser.close();
await server.close();
await standin.stop();
