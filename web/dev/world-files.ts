// Files and workloads of the stand-in: a node with pods, one of them loud, one denied.

import type { Files, ListedFile, StreamPolicy, Workload } from "../src/lib/contract";
import { dice } from "./events";

/** What of the world its files depend on. */
export interface FileWorld {
  calm: boolean;
  empty: boolean;
  text: (plain: string, number: number) => string;
  /** How much came at so many a second, swinging by `period`. */
  swing: (perSecond: number, period: number) => number;
}

const PODS = ["cart", "shop", "payment", "search", "gateway", "ledger", "mail", "etcd", "auth"];

const NO_LOSSES = {
  rotated_away_unread_bytes: 0,
  missed_generations: 0,
  lines_cut: 0,
  partial_flushed: 0,
  malformed_lines: 0,
  holes_skipped: 0,
  truncated: 0,
};

function podFile(world: FileWorld, i: number): ListedFile {
  const name = PODS[i % PODS.length] ?? "pod";
  const roll = dice(i * 104_729);
  const loud = i === 1 && !world.calm;
  const read_bytes = world.swing(loud ? 9e6 : i % 3 === 0 ? 0 : 2e5 * roll(), 30 + i);
  const position = read_bytes % (10 * 2 ** 20);
  const lag_bytes = loud ? 46 * 2 ** 20 + (read_bytes % 2 ** 20) : 0;
  const folder = `/var/log/pods/prod_${name}-7f9c${i}_1b2c3d4e-${i}/${name}`;
  return {
    path: world.text(`${folder}/0.log`, i),
    state: i % 3 === 0 ? (i % 9 === 6 ? "polled" : "watched") : "live",
    reason: null,
    since_ms: null,
    generation: Math.floor(read_bytes / (10 * 2 ** 20)),
    waiting: loud ? 4 : 0,
    position,
    size: loud ? 10 * 2 ** 20 : position,
    lag_bytes,
    lag_s: loud ? 74.2 : 0,
    read_bytes,
    joined: i % 4 === 1 ? Math.floor(read_bytes / 40_000) : 0,
    losses: loud
      ? { ...NO_LOSSES, rotated_away_unread_bytes: 18_874_368, missed_generations: 2, lines_cut: 3 }
      : { ...NO_LOSSES, partial_flushed: !world.calm && i % 7 === 3 ? 2 : 0 },
  };
}

function illFiles(world: FileWorld, now_ms: number): ListedFile[] {
  const none = { ...podFile(world, 0), generation: 0, position: 0, size: 0, read_bytes: 0 };
  return [
    {
      ...none,
      path: world.text("/var/log/pods/prod_vault-0_77aa/vault/0.log", 2),
      state: "unopened",
      reason: world.text("the permission to read it is missing", 1),
      since_ms: now_ms - 420_000,
    },
    {
      ...none,
      path: "/var/log/pods/prod_trace-1_90ff/trace/pipe.log",
      state: "skipped",
      reason: "it is a FIFO",
      since_ms: now_ms - 86_400_000,
    },
  ];
}

function workload(world: FileWorld, i: number): Workload {
  const name = PODS[i % PODS.length] ?? "pod";
  const owned = i % 2 === 1;
  const decided = (key: string, place: string) => ({ key, place, annotation: `inrush.io/${key}` });
  const stream = (which: string): StreamPolicy => ({
    stream: which,
    excluded: i === 5 && which === "stderr",
    ...(owned ? { index: world.text("apps", i), sourcetype: `${name}:json` } : {}),
    ...(i === 7 ? { to: ["splunk", "archive"], rate_bytes: 1_048_576 } : {}),
    decided_by: owned
      ? [decided("index", "namespace"), decided("sourcetype", `Deployment ${name}`)]
      : [],
  });
  return {
    namespace: world.text("prod", i),
    workload: `Deployment ${name}`,
    pod: `${name}-7f9c${i}`,
    uid: `1b2c3d4e-${i}`,
    container: name,
    metadata: i === 4 ? "awaited" : "known",
    streams: [stream("stdout"), stream("stderr")],
    problems:
      i === 2 && !world.calm ? [world.text("pod: `inrush.io/sample` is no percentage", 3)] : [],
  };
}

export function filesOf(world: FileWorld, now_ms: number): Files {
  const numbers = world.empty ? [] : Array.from({ length: 36 }, (_, i) => i);
  const files = numbers.map((i) => podFile(world, i));
  const ill = world.calm || world.empty ? [] : illFiles(world, now_ms);
  const polled = files.filter((one) => one.state === "polled").length;
  return {
    at_ms: now_ms,
    sources: [
      {
        source: world.text("pods", 2),
        logs: files.length,
        lag_bytes: files.reduce((sum, one) => sum + one.lag_bytes, 0),
        failed: 0,
        refused: ill.length,
        polled,
        rotated_away_unread_bytes: files.reduce(
          (sum, one) => sum + one.losses.rotated_away_unread_bytes,
          0,
        ),
        missed_generations: files.reduce((sum, one) => sum + one.losses.missed_generations, 0),
        polling:
          polled === 0
            ? []
            : [
                {
                  reason: "no_watch",
                  words:
                    "the limit of watches is reached: raise fs.inotify.max_user_watches by sysctl",
                  since_ms: now_ms - 3_600_000,
                  folder: null,
                  files: polled,
                },
              ],
        files: [...ill, ...files],
        workloads: numbers.slice(0, PODS.length).map((i) => workload(world, i)),
      },
    ],
  };
}
