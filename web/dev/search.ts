// Answers searches over the made events, line by line, as the contract says.

import type { FieldSummary, SearchEvent, SearchLine } from "../src/lib/contract";
import { ATTACKS, eventOf, msOf, STEP_MS } from "./events";
import { Counter, fieldOf, parseQuery, type Query, Unreadable } from "./query";

/** How far back events reach. */ const REACH_MS = 7 * 86_400_000;

/** Events between two lines of progress. */
const STRIDE = 10_000;

const FIELDS = [
  "host",
  "sourcetype",
  "index",
  "source",
  "severity",
  "vendor",
  "product",
  "app",
  "action",
  "user",
  "src_ip",
  "dest_port",
  "status",
];

export interface Asked {
  query: Query;
  from_ms: number;
  to_ms: number;
  limit: number;
  buckets: number;
}

export function askedOf(params: URLSearchParams, now_ms: number): Asked {
  const since = params.get("since") ?? "15m";
  const until = params.get("until") ?? "";
  return {
    query: parseQuery(params.get("q") ?? ""),
    from_ms: since === "all" ? now_ms - REACH_MS : momentOf(since, now_ms, "since"),
    to_ms: until === "" ? now_ms : momentOf(until, now_ms, "until"),
    limit: Number(params.get("limit") ?? "200"),
    buckets: Number(params.get("buckets") ?? "60"),
  };
}

function momentOf(text: string, now_ms: number, name: string): number {
  const [, n, unit] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  if (n && unit) {
    const units: Record<string, number> = { s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 };
    return now_ms - Number(n) * (units[unit] ?? 0);
  }
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Date.parse(text);
  if (!Number.isFinite(ms)) {
    throw new Unreadable(`${name} is no time: ${text}`, 1, 1);
  }
  return ms;
}

export interface Source {
  everyHostile: boolean;
  empty: boolean;
}

/** Every line of the answer; the caller waits between them as long as it likes. */
export function* answer(asked: Asked, source: Source): Generator<SearchLine> {
  const { query, from_ms, to_ms, limit, buckets } = asked;
  const started = performance.now();
  const bucket_ms = Math.max(1, Math.ceil((to_ms - from_ms) / Math.max(1, buckets)));
  const counts = new Array<number>(Math.max(1, Math.ceil((to_ms - from_ms) / bucket_ms))).fill(0);
  yield { type: "plan", sql: `SELECT * FROM events`, from_ms, to_ms, bucket_ms };
  const tops = new Map<string, Map<string, number>>();
  const counter = query.aggregation ? new Counter(query.aggregation) : null;
  const oldest_ms = Math.max(from_ms, Date.now() - REACH_MS);
  const [last, first] = [Math.floor(to_ms / STEP_MS), Math.floor(oldest_ms / STEP_MS)];
  let [sent, matched, scanned] = [0, 0, 0];
  for (let number = last; number >= first && !source.empty; number -= 1) {
    const event = eventOf(number, source.everyHostile);
    const ms = msOf(event);
    scanned += 1;
    if (scanned % STRIDE === 0) {
      yield progress(scanned, last - first + 1);
    }
    if (ms < from_ms || Number(event.time_ns) / 1e6 >= to_ms || !query.test(event)) {
      continue;
    }
    matched += 1;
    const bucket = Math.min(counts.length - 1, Math.floor((ms - from_ms) / bucket_ms));
    counts[bucket] = (counts[bucket] ?? 0) + 1;
    if (counter) {
      counter.add(event, ms);
      continue;
    }
    tally(tops, event);
    if (sent < limit) {
      sent += 1;
      yield event;
    }
    if (buckets === 0 && sent >= limit) {
      break;
    }
  }
  yield progress(scanned, scanned);
  if (buckets > 0) {
    yield { type: "histogram", from_ms, bucket_ms, counts };
    yield { type: "fields", fields: summaries(tops), sampled: false };
  }
  if (counter) {
    const { columns, rows } = counter.table();
    yield { type: "table", columns };
    for (const values of rows) {
      yield { type: "row", values };
    }
  }
  const elapsed_ms = performance.now() - started;
  const limited = !counter && matched >= limit;
  const damaged = ATTACKS.slice(0, 2).map((path) => ({ path, reason: path }));
  const set_aside = source.everyHostile ? damaged : [];
  yield { type: "end", matched, elapsed_ms, stopped: limited ? "limit" : null, set_aside };
}

function progress(done: number, total: number): SearchLine {
  const files = (n: number) => Math.ceil(n / 2_000);
  return {
    type: "progress",
    files_done: files(done),
    files_total: files(total),
    events_scanned: done,
    bytes_scanned: done * 310,
  };
}

function tally(tops: Map<string, Map<string, number>>, event: SearchEvent): void {
  for (const name of [...FIELDS, ...Object.keys(event.fields ?? {})]) {
    const value = fieldOf(event, name);
    if (value !== undefined) {
      const values = tops.get(name) ?? new Map<string, number>();
      values.set(value, (values.get(value) ?? 0) + 1);
      tops.set(name, values);
    }
  }
}

function summaries(tops: Map<string, Map<string, number>>): FieldSummary[] {
  return [...tops].map(([name, values]) => ({
    name,
    distinct: values.size,
    top: [...values].sort((a, b) => b[1] - a[1]).slice(0, 10),
  }));
}
