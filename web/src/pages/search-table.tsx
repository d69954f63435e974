// The answer of an aggregation: a table to be sorted and, over time, a chart.

import { useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import { type Range, SERIES_MAX, seriesOf, timeOf } from "../lib/buckets";
import type { Cell, Column } from "../lib/contract";
import { count, severityRank, short } from "../lib/format";
import type { SearchView } from "../lib/search-run";
import { compare } from "../lib/senders";
import { Chart, type ChartInk, countAxis, timeAxis } from "../parts/chart";
import { EventText } from "../parts/event-text";
import { When } from "../parts/when";

/** Rows that are drawn; the export has all. */
const ROWS_SHOWN = 500;

interface Order {
  column: number;
  down: boolean;
}

export function AggregationTable({ view }: { view: SearchView }) {
  const [order, setOrder] = useState<Order | null>(null);
  const { columns, rows } = view;
  // Rows grow in place, so their number is what tells of news.
  const sorted = useMemo(() => sortRows(rows, columns, order), [rows, rows.length, columns, order]);
  if (columns === null) {
    return <p class="faint empty">{view.phase === "running" ? "Counting…" : ""}</p>;
  }
  return (
    <>
      <BucketChart
        columns={columns}
        rows={rows}
        range={view.plan}
        ready={view.phase !== "running"}
      />
      <div class="scroll-x">
        <table class="grid aggregation">
          <thead>
            <tr>
              {columns.map((column, i) => (
                <SortHead
                  key={column.name}
                  column={column}
                  at={i}
                  order={order}
                  onOrder={setOrder}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {sorted.slice(0, ROWS_SHOWN).map((row) => (
              <tr>
                {columns.map((column, i) => (
                  <td class={column.kind === "number" ? "num" : ""}>
                    <Value kind={column.kind} value={row[i] ?? null} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > ROWS_SHOWN && (
        <p class="faint list-end">
          {ROWS_SHOWN} of {count(rows.length)} rows: <code>| head</code> cuts, the export has all.
        </p>
      )}
    </>
  );
}

interface HeadProps {
  column: Column;
  at: number;
  order: Order | null;
  onOrder: (order: Order) => void;
}

function SortHead({ column, at, order, onOrder }: HeadProps) {
  const mine = order?.column === at;
  const sorted = mine ? (order.down ? "descending" : "ascending") : "none";
  // Numbers and times begin with the largest, texts with A.
  const down = mine ? !order.down : column.kind !== "text";
  return (
    <th scope="col" class={column.kind === "number" ? "num" : ""} aria-sort={sorted}>
      <button type="button" class="sort" onClick={() => onOrder({ column: at, down })}>
        <EventText text={column.name} />
        <span aria-hidden="true">{mine ? (order.down ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

function sortRows(rows: Cell[][], columns: Column[] | null, order: Order | null): Cell[][] {
  if (order === null || columns === null) {
    return [...rows];
  }
  const column = columns[order.column];
  const key = (row: Cell[]) => keyOf(column, row[order.column] ?? null);
  return [...rows].sort((a, b) => compare(key(a), key(b)) * (order.down ? -1 : 1));
}

/** Times by their course, severities by their rank, all else as it is. */
function keyOf(column: Column | undefined, value: Cell): Cell {
  if (column?.kind === "time") {
    return timeOf(value);
  }
  return column?.name === "severity" ? (severityRank(value) ?? value) : value;
}

function Value({ kind, value }: { kind: Column["kind"]; value: Cell }) {
  if (value === null) {
    return <span class="faint">–</span>;
  }
  if (kind === "time") {
    return <When ms={timeOf(value)} />;
  }
  if (kind === "number" && typeof value === "number") {
    return <>{Number.isInteger(value) ? count(value) : value.toLocaleString("en-GB")}</>;
  }
  return <EventText text={String(value)} />;
}

interface ChartProps {
  columns: Column[];
  rows: Cell[][];
  range: Range | null;
  /** Drawn once all rows are there. */
  ready: boolean;
}

function BucketChart({ columns, rows, range, ready }: ChartProps) {
  const found = useMemo(
    () => (ready ? seriesOf(columns, rows, range) : null),
    [ready, columns, rows, range],
  );
  if (!columns.some((column) => column.kind === "time")) {
    return null;
  }
  if (!found) {
    return <div class="bucket-chart" />;
  }
  const build = (ink: ChartInk): Omit<uPlot.Options, "width" | "height"> => ({
    ms: 1,
    legend: { show: false },
    padding: [6, 24, 0, 0],
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.05)] } },
    axes: [timeAxis(ink), countAxis(ink, short)],
    series: [
      {},
      ...found.names.map((label, i) => ({
        label,
        stroke: ink.series[i % ink.series.length] ?? ink.accent,
        width: 1.75,
        points: { size: 4 },
      })),
    ],
  });
  return (
    <div class="bucket-chart">
      <Chart
        data={[found.times, ...found.values]}
        height={180}
        shape={`${found.names.join("\0")}/${found.times.length}`}
        label={`${found.names.length} lines over ${found.times.length} times`}
        build={build}
      />
      <ul class="legend">
        {found.names.map((name, i) => (
          <li key={name}>
            <span class={`swatch series-${i}`} aria-hidden="true" />
            <EventText text={name} />
          </li>
        ))}
        {found.left > 0 && (
          <li class="faint">
            {found.left} more, see the table (first {SERIES_MAX} by size)
          </li>
        )}
      </ul>
    </div>
  );
}
