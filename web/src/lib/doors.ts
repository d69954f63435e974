// Doors as a table wants them: rates and lags of the last seconds, from lists of totals.

import type { Counts, Door, Doors, DoorToken, Times } from "./contract";

/** Lists that are looked back over: ten seconds, since one comes every two. */
const WINDOW = 6;

/** Senders of a row. */
const SENDERS_SHOWN = 3;

/** A code of an answer, how often it was given, and whether it is a refusal. */
export interface DoorAnswer {
  code: number;
  count: number;
  bad: boolean;
  words: string;
}

export interface DoorRow {
  key: string;
  /** The source, or the token. */
  name: string;
  isToken: boolean;
  /** Of a source: its type. */
  type: string;
  listeners: string[];
  disabled: boolean;
  connections: number | null;
  connection_errors: number;
  /** Events a second; null until there are two lists. */
  rate: number | null;
  bytesRate: number | null;
  /** Seconds that half of the events, and 99 % of them, were old at most. */
  lag: Spread | null;
  /** The same of requests until they were answered. */
  requests: Spread | null;
  answers: DoorAnswer[];
  last_ms: number | null;
  senders: { ip: string; text: number }[];
  /** Whether the numbers of senders are events a second, or events in all. */
  senderRates: boolean;
}

/** Upper bounds in seconds; infinite beyond the last. */
export interface Spread {
  half_s: number;
  most_s: number;
}

/** What codes mean, shorter than the texts that clients get. */
const CODES: Record<number, string> = {
  0: "taken",
  1: "token disabled",
  2: "no token",
  3: "invalid authorization",
  4: "unknown token",
  5: "no data",
  6: "invalid format",
  7: "index not allowed",
  8: "internal error",
  9: "busy",
  10: "no channel",
  11: "invalid channel",
  12: "no event",
  13: "blank event",
  14: "acknowledgement is off",
  15: "invalid fields",
  16: "token in the query",
  17: "healthy",
  18: "health: queue is full",
  19: "health: acknowledgements are full",
  20: "health: both are full",
  21: "health: unknown token",
  22: "health: token disabled",
  23: "process stops",
  24: "taken, queue nearly full",
  25: "taken, acknowledgements nearly full",
  26: "queue is full",
  27: "acknowledgements are full",
  200: "acknowledgements, options",
  404: "no such path",
  405: "wrong method",
  413: "body too large",
  415: "unknown compression",
};

const GOOD = new Set([0, 17, 24, 25, 200]);

export function answersOf(counts: Counts): DoorAnswer[] {
  const all = Object.entries(counts).map(([name, count]): DoorAnswer => {
    const code = Number(name);
    return { code, count, bad: !GOOD.has(code), words: CODES[code] ?? "HTTP status" };
  });
  return all.sort((a, b) => a.code - b.code);
}

/** What came between two lists; all of it without an earlier one. */
function grown(before: Times | undefined, now: Times): number[] {
  return now.counts.map((n, i) => Math.max(0, n - (before?.counts[i] ?? 0)));
}

/** The bound that a share of the times does not exceed; null without times. */
export function quantile(
  bounds_s: readonly number[],
  counts: readonly number[],
  share: number,
): number | null {
  const total = counts.reduce((sum, n) => sum + n, 0);
  if (total === 0) {
    return null;
  }
  let seen = 0;
  const bucket = counts.findIndex((n) => {
    seen += n;
    return seen >= total * share;
  });
  return bounds_s[bucket] ?? Number.POSITIVE_INFINITY;
}

function spread(
  bounds_s: readonly number[],
  before: Times | undefined,
  now: Times | undefined,
): Spread | null {
  if (now === undefined) {
    return null;
  }
  const counts = grown(before, now);
  const [half_s, most_s] = [quantile(bounds_s, counts, 0.5), quantile(bounds_s, counts, 0.99)];
  return half_s === null || most_s === null ? null : { half_s, most_s };
}

export class DoorWindow {
  #lists: Doors[] = [];

  /** Takes the next list. Totals that fall are of another process, and begin anew. */
  push(list: Doors): void {
    const last = this.#lists.at(-1);
    if (last && (list.at_ms <= last.at_ms || fell(last, list))) {
      this.#lists = [];
    }
    this.#lists = [...this.#lists, list].slice(-WINDOW);
  }

  /** Rows of each source, and of its tokens behind it. */
  rows(): DoorRow[] {
    const [before, now] = [this.#lists[0], this.#lists.at(-1)];
    if (now === undefined) {
      return [];
    }
    const seconds = (now.at_ms - (before?.at_ms ?? now.at_ms)) / 1000;
    return now.doors.flatMap((door) => {
      const old = seconds > 0 ? before?.doors.find((one) => one.source === door.source) : undefined;
      const tokens = (door.tokens ?? []).map((token) => {
        const oldToken = old?.tokens?.find((one) => one.name === token.name);
        return tokenRow(now.bounds_s, door, token, oldToken, seconds);
      });
      return [doorRow(now.bounds_s, door, old, seconds), ...tokens];
    });
  }
}

function fell(before: Doors, now: Doors): boolean {
  return now.doors.some((door) => {
    const old = before.doors.find((one) => one.source === door.source);
    return old !== undefined && door.events < old.events;
  });
}

function perSecond(before: number | undefined, now: number, seconds: number): number | null {
  return before === undefined || seconds <= 0 ? null : Math.max(0, now - before) / seconds;
}

function doorRow(bounds_s: number[], door: Door, old: Door | undefined, seconds: number): DoorRow {
  return {
    key: door.source,
    name: door.source,
    isToken: false,
    type: door.type,
    listeners: door.listeners,
    disabled: false,
    connections: door.connections,
    connection_errors: door.connection_errors,
    rate: perSecond(old?.events, door.events, seconds),
    bytesRate: perSecond(old?.bytes, door.bytes, seconds),
    lag: spread(bounds_s, old?.lag, door.lag),
    requests: spread(bounds_s, old?.requests, door.requests),
    answers: [],
    last_ms: null,
    senders: door.senders.slice(0, SENDERS_SHOWN).map(({ ip, rate }) => ({ ip, text: rate })),
    senderRates: true,
  };
}

function tokenRow(
  bounds_s: number[],
  door: Door,
  token: DoorToken,
  old: DoorToken | undefined,
  seconds: number,
): DoorRow {
  return {
    key: `${door.source}\0${token.name}`,
    name: token.name,
    isToken: true,
    type: "",
    listeners: [],
    disabled: token.disabled,
    connections: null,
    connection_errors: 0,
    rate: perSecond(old?.events, token.events, seconds),
    bytesRate: perSecond(old?.bytes, token.bytes, seconds),
    lag: spread(bounds_s, old?.lag, token.lag),
    requests: null,
    answers: answersOf(token.answers),
    last_ms: token.last_seen_ms,
    senders: token.senders.slice(0, SENDERS_SHOWN).map(({ ip, events }) => ({ ip, text: events })),
    senderRates: false,
  };
}
