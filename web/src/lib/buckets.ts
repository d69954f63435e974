// From the rows of `count by host, 5m` to lines over time.

import type { Cell, Column } from "./contract";
import { msOfNs } from "./format";

/** Lines of a chart: those with the largest sums. */
export const SERIES_MAX = 8;

export interface Lines {
  times: number[];
  names: string[];
  /** One list a name, as long as `times`; where there is no row a count is 0, all else null. */
  values: (number | null)[][];
  /** Lines that were left out. */
  left: number;
}

/** A time of a table in milliseconds: a number is that already, a long decimal is nanoseconds. */
export function timeOf(value: Cell | undefined): number | null {
  if (typeof value === "number") {
    return value;
  }
  if (typeof value !== "string") {
    return null;
  }
  const ms = /^-?\d+$/.test(value) ? msOfNs(value) : Date.parse(value);
  return Number.isFinite(ms) ? ms : null;
}

/** The range of a table, and the width of its stretches of time. */
export interface Range {
  from_ms: number;
  to_ms: number;
  step_ms?: number;
}

/** Stretches that are drawn each; of more, those beside a gap and those with a row are drawn. */
const STRETCHES_MAX = 2_000;

/** Null where there is no time or nothing to count. */
export function seriesOf(
  columns: readonly Column[],
  rows: readonly Cell[][],
  range: Range | null = null,
): Lines | null {
  const time = columns.findIndex((column) => column.kind === "time");
  const numbers = columns.flatMap((column, i) => (column.kind === "number" ? [i] : []));
  const texts = columns.flatMap((column, i) => (column.kind === "text" ? [i] : []));
  if (time < 0 || numbers.length === 0 || rows.length === 0) {
    return null;
  }
  const all = new Map<string, Map<number, number>>();
  const counters = new Set<string>();
  const times = new Set<number>();
  for (const row of rows) {
    const at = timeOf(row[time]);
    if (at === null) {
      continue;
    }
    times.add(at);
    for (const i of numbers) {
      const name = nameOf(
        row,
        texts,
        numbers.length > 1 || texts.length === 0 ? columns[i] : undefined,
      );
      const line = all.get(name) ?? new Map<number, number>();
      if (isCount(columns[i])) {
        counters.add(name);
      }
      if (row[i] !== null && row[i] !== undefined) {
        line.set(at, Number(row[i]));
      }
      all.set(name, line);
    }
  }
  const sum = (line: Map<number, number>) => [...line.values()].reduce((a, b) => a + b, 0);
  const ranked = [...all].sort((a, b) => sum(b[1]) - sum(a[1]));
  const shown = ranked.slice(0, SERIES_MAX);
  const sorted = withGaps(
    [...times].sort((a, b) => a - b),
    range,
  );
  return {
    times: sorted,
    names: shown.map(([name]) => name),
    values: shown.map(([name, line]) =>
      sorted.map((at) => line.get(at) ?? (counters.has(name) ? 0 : null)),
    ),
    left: ranked.length - shown.length,
  };
}

/** True if nothing is 0 of it. */
function isCount(column: Column | undefined): boolean {
  return column !== undefined && (column.name === "count" || /^dc\(/.test(column.name));
}

/** The times, with stretches that have no row: a line must not run straight over them. */
function withGaps(times: number[], range: Range | null): number[] {
  const step = range?.step_ms;
  const [first, last] = [times[0], times.at(-1)];
  if (!range || !step || first === undefined || last === undefined) {
    return times;
  }
  const start = (ms: number) => Math.floor(ms / step) * step;
  const from = Math.min(first, start(range.from_ms));
  const to = Math.max(last, start(range.to_ms - 1));
  const whole = new Set(times);
  if ((to - from) / step < STRETCHES_MAX) {
    for (let at = from; at <= to; at += step) {
      whole.add(at);
    }
  } else {
    for (const at of [from, to, ...times.flatMap((at) => [at - step, at + step])]) {
      if (from <= at && at <= to) {
        whole.add(at);
      }
    }
  }
  return [...whole].sort((a, b) => a - b);
}

function nameOf(row: Cell[], texts: number[], column: Column | undefined): string {
  const parts = texts.map((i) => String(row[i] ?? "–"));
  return [...parts, ...(column ? [column.name] : [])].join(" · ");
}
