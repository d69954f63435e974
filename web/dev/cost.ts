// What the open page costs: CPU time of the whole browser and of its page, measured over some
// time. A figure for people, not a test: `npm run cost -- 30`, with the stand-in server, or
// `npm run cost -- 30 http://127.0.0.1:8686/ PID`, with a running Inrush, whose CPU time is given
// with and without the page.

import { readdirSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { Standin } from "./standin";

const SECONDS = Number(process.argv[2] ?? "20");
const REAL = process.argv[3];
const SERVER_PID = Number(process.argv[4] ?? "0");

/** Clock ticks a second of /proc/PID/stat on Linux. */
const TICKS = 100;

/** CPU seconds of the server, as far as it is known. */
function serverSeconds(): number {
  return SERVER_PID ? (cpuSeconds(SERVER_PID).get("main") ?? 0) : 0;
}

/** CPU seconds of a process and all its descendants, by the kind of process. */
function cpuSeconds(root: number): Map<string, number> {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        const rest = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        const ticks = Number(rest[11]) + Number(rest[12]);
        const command = readFileSync(`/proc/${name}/cmdline`, "utf8");
        const kind = /--type=([\w-]+)/.exec(command)?.[1] ?? "main";
        return [{ pid: Number(name), parent: Number(rest[1]), ticks, kind }];
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
  const used = new Map<string, number>();
  for (const one of all.filter(({ pid }) => wanted.has(pid))) {
    used.set(one.kind, (used.get(one.kind) ?? 0) + one.ticks / TICKS);
  }
  return used;
}

const standin = REAL ? null : await Standin.start();
const address = REAL ?? standin?.url;
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
  ["flow", `${address}#/flow`],
  ["search, at rest", `${address}#/search?since=1h`],
] as const) {
  // A page of its own each time: a change behind the # would load nothing.
  await page.goto("about:blank");
  await page.goto(url);
  await wait(5);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const metrics = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map((one) => [one.name, one.value]));
  };
  const [cpu, served, before] = [cpuSeconds(pid), serverSeconds(), await metrics()];
  await wait(SECONDS);
  const [later, servedLater, after] = [cpuSeconds(pid), serverSeconds(), await metrics()];
  const share = (seconds: number) => `${((100 * seconds) / SECONDS).toFixed(2)} %`;
  const part = (what: string) => share((after[what] ?? 0) - (before[what] ?? 0));
  const kinds = [...later].map(([kind, n]) => [kind, n - (cpu.get(kind) ?? 0)] as const);
  const all = kinds.reduce((n, [, seconds]) => n + seconds, 0);
  const each = kinds.map(([kind, seconds]) => `${kind} ${share(seconds)}`).join(", ");
  console.log(`${name}: ${share(all)} of a core (${each})`);
  console.log(
    `  main thread ${part("TaskDuration")}: script ${part("ScriptDuration")}, ` +
      `style ${part("RecalcStyleDuration")}, layout ${part("LayoutDuration")}`,
  );
  if (SERVER_PID) {
    console.log(`  the server: ${share(servedLater - served)} of a core`);
  }
  const paint = await page.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  );
  if (paint !== undefined) {
    console.log(`  first paint after ${paint.toFixed(0)} ms`);
  }
  await session.detach();
}
await browser.close();
await server.close();
await standin?.stop();
