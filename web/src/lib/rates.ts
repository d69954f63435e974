// From snapshots of totals to events a second, and a short memory of both for sparklines.

import type { Flow } from "./contract";
import { sum } from "./format";

/** Points that a sparkline has: seconds, since one snapshot comes a second. */
export const POINTS = 120;

/** Snapshots that a shown rate looks back over: calm, but no older than three seconds. */
const WINDOW = 4;

/** A gap between two snapshots that is longer breaks the line of a sparkline. */
const GAP_MS = 5_000;

/** What is kept of one snapshot. */
interface Numbers {
  at_ms: number;
  totals: Map<string, number>;
}

export type Point = number | null;

export class Rates {
  #window: Numbers[] = [];
  #series = new Map<string, Point[]>();
  #lastRise = new Map<string, number>();
  #started_ms = 0;

  /** Takes the next snapshot. One of another process, or of an earlier moment, begins anew. */
  push(flow: Flow): void {
    const last = this.#window.at(-1);
    if (flow.started_ms !== this.#started_ms || (last && flow.at_ms <= last.at_ms)) {
      this.#window = [];
      this.#series.clear();
      this.#lastRise.clear();
      this.#started_ms = flow.started_ms;
    }
    const before = this.#window.at(-1);
    const now = { at_ms: flow.at_ms, totals: totals(flow) };
    const gap = before !== undefined && now.at_ms - before.at_ms > GAP_MS;
    if (before) {
      this.#rises(before, now);
    }
    for (const key of now.totals.keys()) {
      this.#add(key, gap ? null : rateBetween(before, now, key));
    }
    for (const [key, value] of gauges(flow)) {
      this.#add(key, gap ? null : value);
    }
    this.#forget(now, flow);
    this.#window = gap ? [now] : [...this.#window, now].slice(-WINDOW);
  }

  /** Events (or bytes) a second over the last few seconds; null until there are two snapshots. */
  rate(key: string): number | null {
    const last = this.#window.at(-1);
    return last ? rateBetween(this.#window[0], last, key) : null;
  }

  /** The last two minutes, oldest first. */
  series(key: string): readonly Point[] {
    return this.#series.get(key) ?? [];
  }

  /** When a total last rose, as far as was seen; in the server's time. */
  lastRise(key: string): number | null {
    return this.#lastRise.get(key) ?? null;
  }

  #rises(before: Numbers, now: Numbers): void {
    for (const [key, value] of now.totals) {
      // A reason is listed from its first event on: one that is new has risen from nothing.
      if (value > (before.totals.get(key) ?? 0)) {
        this.#lastRise.set(key, now.at_ms);
      }
    }
  }

  #add(key: string, value: Point): void {
    const points = this.#series.get(key) ?? [];
    points.push(value);
    if (points.length > POINTS) {
      points.shift();
    }
    this.#series.set(key, points);
  }

  /** What a reload took away is not kept. */
  #forget(now: Numbers, flow: Flow): void {
    const known = new Set(now.totals.keys());
    for (const [key] of gauges(flow)) {
      known.add(key);
    }
    for (const key of this.#series.keys()) {
      if (!known.has(key)) {
        this.#series.delete(key);
        this.#lastRise.delete(key);
      }
    }
  }
}

function rateBetween(from: Numbers | undefined, to: Numbers, key: string): number | null {
  const [a, b] = [from?.totals.get(key), to.totals.get(key)];
  if (from === undefined || a === undefined || b === undefined || to.at_ms <= from.at_ms) {
    return null;
  }
  return Math.max(0, (1000 * (b - a)) / (to.at_ms - from.at_ms));
}

/** The name of an edge; a NUL cannot stand in a name of the configuration. */
export const edgeKey = (from: string, to: string) => `edge/${from}\0${to}`;
export const sourceKey = (name: string, what: string) => `source/${name}/${what}`;
export const destinationKey = (name: string, what: string) => `destination/${name}/${what}`;
export const lossKey = (place: string, label: string) => `loss/${place}/${label}`;

/** Every total by name. */
function totals(flow: Flow): Map<string, number> {
  const all = new Map<string, number>();
  let [received, delivered] = [0, 0];
  for (const source of flow.sources) {
    received += source.received;
    all.set(sourceKey(source.name, "received"), source.received);
    all.set(sourceKey(source.name, "accepted"), source.accepted);
    all.set(sourceKey(source.name, "bytes"), source.bytes);
    all.set(sourceKey(source.name, "lost"), source.kernel_dropped + sum(source.rejected));
  }
  for (const one of flow.destinations) {
    delivered += one.delivered;
    all.set(destinationKey(one.name, "accepted"), one.accepted);
    all.set(destinationKey(one.name, "delivered"), one.delivered);
    all.set(destinationKey(one.name, "lost"), sum(one.quarantined) + sum(one.dropped));
  }
  for (const edge of flow.edges) {
    all.set(edgeKey(edge.from, edge.to), edge.events);
  }
  for (const loss of flow.loss) {
    all.set(lossKey(loss.place, loss.label), loss.count);
  }
  all.set("in", received);
  all.set("out", delivered);
  all.set("filtered", sum(flow.filtered));
  return all;
}

/** Every value that is shown as it stands. */
function gauges(flow: Flow): [string, Point][] {
  const all: [string, Point][] = flow.destinations.flatMap((one) => [
    [destinationKey(one.name, "pending"), one.pending],
    [destinationKey(one.name, "oldest_ms"), one.oldest_pending_ms],
    [destinationKey(one.name, "request_ms"), one.request_ms],
  ]);
  all.push(["queue/bytes", flow.queue.bytes], ["queue/disk_bytes", flow.queue.disk_bytes]);
  all.push(["pending", Math.max(0, ...flow.destinations.map((one) => one.pending))]);
  all.push(["oldest_ms", Math.max(0, ...flow.destinations.map((one) => one.oldest_pending_ms))]);
  return all;
}
