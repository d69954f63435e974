// Senders as a table wants them, whichever version of the server tells of them.

import type { Sender } from "./contract";
import { msOfNs } from "./format";

/** Silent for longer than this is an alarm where the server says no more. */
const SILENT_ALARM_S = 300;

/** A clock that is off by more than this is worth a word. */
export const SKEW_WORTH_MS = 2_000;

export interface SenderRow {
  key: string;
  ip: string;
  source: string;
  /** Products, the latest first. */
  recognised: string[];
  /** Events that no rule recognised. */
  unrecognised: number;
  /** Of the header of its last event. */
  format: string;
  unknown: boolean;
  events: number;
  bytes: number;
  first_ms: number | null;
  last_ms: number | null;
  rate: number | null;
  silent_ms: number | null;
  silentAlarm: boolean;
  skew_ms: number | null;
  /** Such as `-05:00`; null if no zone was guessed. */
  zone: string | null;
  sample: string | null;
}

export function senderRow(one: Sender): SenderRow {
  const silent = one.silent_s ?? null;
  const recognised = one.recognised ?? [];
  const names = (Array.isArray(recognised) ? recognised : [recognised]).filter((n) => n !== "");
  return {
    key: `${one.source}\0${one.ip}`,
    ip: one.ip,
    source: one.source,
    recognised: names,
    unrecognised: one.unrecognised ?? 0,
    format: one.format ?? "",
    unknown: typeof one.unknown === "number" ? one.unknown > 0 : (one.unknown ?? false),
    events: one.events,
    bytes: one.bytes,
    first_ms: one.first_seen_ms ?? fromNs(one.first_seen_ns),
    last_ms: one.last_seen_ms ?? fromNs(one.last_seen_ns),
    rate: one.rate ?? null,
    silent_ms: silent === null ? null : silent * 1000,
    silentAlarm: silent !== null && silent >= SILENT_ALARM_S,
    skew_ms: one.clock_skew_ms ?? null,
    zone: one.zone_guessed ?? null,
    sample: one.sample ?? null,
  };
}

function fromNs(ns: number | string | undefined): number | null {
  return ns === undefined ? null : msOfNs(ns);
}

export const SENDER_COLUMNS = [
  "ip",
  "source",
  "recognised",
  "format",
  "rate",
  "events",
  "bytes",
  "first_ms",
  "last_ms",
  "silent_ms",
  "skew_ms",
] as const;
export type SenderColumn = (typeof SENDER_COLUMNS)[number];

export interface Order {
  column: SenderColumn;
  down: boolean;
}

/** Unknown ones first, then the silent, then in the order that was asked for. */
export function sortSenders(rows: readonly SenderRow[], order: Order): SenderRow[] {
  return [...rows].sort(
    (a, b) =>
      Number(b.unknown) - Number(a.unknown) ||
      compare(a[order.column], b[order.column]) * (order.down ? -1 : 1) ||
      compare(a.ip, b.ip),
  );
}

const NAMES = new Intl.Collator("en-GB", { numeric: true });

/** Numbers by size, texts by name; what is absent is smallest. */
export function compare(a: unknown, b: unknown): number {
  if (typeof a === "number" && typeof b === "number") {
    return a - b;
  }
  const [left, right] = [wordOf(a), wordOf(b)];
  return left === "" || right === "" ? left.length - right.length : NAMES.compare(left, right);
}

function wordOf(value: unknown): string {
  return value === null || value === undefined
    ? ""
    : Array.isArray(value)
      ? value.join(" ")
      : `${value}`;
}
