// From the rows of `count by host, 5m` to lines over time.

import type { Cell, Column } from "./contract";
import { msOfNs } from "./format";

/** Lines of a chart: those with the largest sums. */
export const SERIES_MAX = 8;

export interface Lines {
  times: number[];
  names: string[];
  /** One list a name, as long as `times`; null where there is no row. */
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

/** Null where there is no time or nothing to count. */
export function seriesOf(columns: readonly Column[], rows: readonly Cell[][]): Lines | null {
  const time = columns.findIndex((column) => column.kind === "time");
  const numbers = columns.flatMap((column, i) => (column.kind === "number" ? [i] : []));
  const texts = columns.flatMap((column, i) => (column.kind === "text" ? [i] : []));
  if (time < 0 || numbers.length === 0 || rows.length === 0) {
    return null;
  }
  const all = new Map<string, Map<number, number>>();
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
      line.set(at, Number(row[i] ?? 0));
      all.set(name, line);
    }
  }
  const sum = (line: Map<number, number>) => [...line.values()].reduce((a, b) => a + b, 0);
  const ranked = [...all].sort((a, b) => sum(b[1]) - sum(a[1]));
  const shown = ranked.slice(0, SERIES_MAX);
  const sorted = [...times].sort((a, b) => a - b);
  return {
    times: sorted,
    names: shown.map(([name]) => name),
    values: shown.map(([, line]) => sorted.map((at) => line.get(at) ?? null)),
    left: ranked.length - shown.length,
  };
}

function nameOf(row: Cell[], texts: number[], column: Column | undefined): string {
  const parts = texts.map((i) => String(row[i] ?? "–"));
  return [...parts, ...(column ? [column.name] : [])].join(" · ");
}
