// What runs now: one stream of snapshots for the whole page, kept while the page is seen. A hidden
// page holds no connection: browsers have few a host, and nobody looks.

import { useEffect, useState } from "preact/hooks";
import type { Flow } from "./contract";
import { Rates } from "./rates";
import { follow, type StreamState } from "./stream";

export interface Live {
  flow: Flow | null;
  rates: Rates;
  state: StreamState;
}

/** Without a snapshot for so long the connection counts as lost; one comes every second. */
const SILENCE_MS = 6_000;

let live: Live = { flow: null, rates: new Rates(), state: { kind: "connecting" } };
const watchers = new Set<(live: Live) => void>();
let stop: (() => void) | null = null;

function change(next: Partial<Live>): void {
  live = { ...live, ...next };
  for (const watcher of watchers) {
    watcher(live);
  }
}

/** What a snapshot of an older or newer server leaves out is empty. */
export function wholeFlow(part: Partial<Flow>): Flow {
  const queue = {
    bytes: 0,
    bytes_max: 0,
    disk_bytes: 0,
    disk_bytes_max: 0,
    segments: 0,
    stall: null,
    full_in_s: null,
  };
  return {
    at_ms: part.at_ms ?? Date.now(),
    version: part.version ?? "",
    started_ms: part.started_ms ?? 0,
    balanced: part.balanced ?? true,
    sources: part.sources ?? [],
    filtered: part.filtered ?? {},
    destinations: part.destinations ?? [],
    edges: part.edges ?? [],
    queue: { ...queue, ...part.queue },
    threads: part.threads ?? [],
    loss: part.loss ?? [],
    alarms: part.alarms ?? [],
  };
}

function take(data: string): void {
  let flow: Flow;
  try {
    flow = wholeFlow(JSON.parse(data) as Partial<Flow>);
  } catch {
    return;
  }
  live.rates.push(flow);
  change({ flow });
}

function connect(): void {
  stop?.();
  stop = null;
  if (watchers.size > 0 && document.visibilityState === "visible") {
    stop = follow({
      url: "api/v1/flow/stream",
      onMessage: (message) => message.event === "message" && take(message.data),
      onState: (state) => change({ state }),
      silence_ms: SILENCE_MS,
    });
  }
}

function watch(watcher: (live: Live) => void): () => void {
  watchers.add(watcher);
  if (watchers.size === 1) {
    document.addEventListener("visibilitychange", connect);
    connect();
  }
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0) {
      document.removeEventListener("visibilitychange", connect);
      connect();
    }
  };
}

/** Follows what runs; once a second there is news. */
export function useLive(): Live {
  const [now, setNow] = useState(live);
  useEffect(() => {
    setNow(live);
    return watch(setNow);
  }, []);
  return now;
}
