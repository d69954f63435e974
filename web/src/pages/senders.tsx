// Who sends: unknown ones first, for they are the ones to look at.

import { useMemo, useState } from "preact/hooks";
import type { Sender } from "../lib/contract";
import { bytes, count, duration, plural, rate } from "../lib/format";
import { usePoll } from "../lib/poll";
import { quote } from "../lib/query";
import {
  type Order,
  type SenderColumn,
  type SenderRow,
  SKEW_WORTH_MS,
  senderRow,
  sortSenders,
} from "../lib/senders";
import { routeHash, searchParams } from "../lib/url";
import { EventText } from "../parts/event-text";
import { Explain } from "../parts/explain";
import { FirstEvent } from "../parts/first-event";
import { When } from "../parts/when";

/** Rows that are drawn; the filter finds the others. */
const ROWS_SHOWN = 300;

/** A long list is asked for less often. */
const pace = (value: { senders: Sender[] } | null) =>
  (value?.senders.length ?? 0) > 1000 ? 20_000 : 5_000;

/** What one looks for first is first: on a phone the rest is reached by scrolling. */
const HEADS: [SenderColumn, string, boolean][] = [
  ["ip", "sender", false],
  ["recognised", "product", false],
  ["format", "header", false],
  ["rate", "events/s", true],
  ["silent_ms", "silent for", true],
  ["skew_ms", "clock skew", true],
  ["last_ms", "last seen", false],
  ["first_ms", "first seen", false],
  ["events", "events", true],
  ["bytes", "bytes", true],
  ["source", "source", false],
];

export function SendersPage() {
  const { value, problem } = usePoll<{ senders: Sender[] }>("api/v1/senders", pace);
  const [order, setOrder] = useState<Order>({ column: "last_ms", down: true });
  const [filter, setFilter] = useState("");
  const [explained, setExplained] = useState<string | null>(null);
  const rows = useMemo(() => (value?.senders ?? []).map(senderRow), [value]);
  const shown = useMemo(() => sortSenders(fitting(rows, filter), order), [rows, filter, order]);
  return (
    <div class="senders">
      <div class="page-head">
        <h1>Senders</h1>
        <p class="status" role="status">
          {problem ? `No answer: ${problem}` : summary(rows, value !== null)}
        </p>
        <input
          type="search"
          class="filter"
          placeholder="Address, name or source"
          aria-label="Filter senders"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </div>
      <section class="panel scroll-x senders-panel" aria-label="Senders">
        <table class="grid">
          <thead>
            <tr>
              {HEADS.map(([column, title, numeric]) => (
                <Head
                  key={column}
                  column={column}
                  title={title}
                  numeric={numeric}
                  order={order}
                  onOrder={setOrder}
                />
              ))}
              <th scope="col">sample</th>
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, ROWS_SHOWN).map((row) => (
              <SenderLine key={row.key} row={row} onExplain={setExplained} />
            ))}
          </tbody>
        </table>
        {shown.length > ROWS_SHOWN && (
          <p class="faint list-end">
            {ROWS_SHOWN} of {count(shown.length)}: the filter finds the others.
          </p>
        )}
        {value !== null && rows.length === 0 && (
          <div class="empty">
            <h2>Nobody has sent anything yet</h2>
            <FirstEvent />
          </div>
        )}
      </section>
      {explained !== null && <Explain raw={explained} onClose={() => setExplained(null)} />}
    </div>
  );
}

function fitting(rows: SenderRow[], filter: string): SenderRow[] {
  const wanted = filter.trim().toLowerCase();
  const text = (row: SenderRow) =>
    [row.ip, row.source, row.format, ...row.recognised].join("\n").toLowerCase();
  return wanted === "" ? rows : rows.filter((row) => text(row).includes(wanted));
}

function summary(rows: SenderRow[], known: boolean): string {
  if (!known) {
    return "Asking…";
  }
  const unknown = rows.filter((row) => row.unknown).length;
  const silent = rows.filter((row) => row.silentAlarm).length;
  const parts = [plural(rows.length, "sender")];
  if (unknown > 0) {
    parts.push(`${count(unknown)} not recognised`);
  }
  if (silent > 0) {
    parts.push(`${count(silent)} silent`);
  }
  return parts.join(" · ");
}

interface HeadProps {
  column: SenderColumn;
  title: string;
  numeric: boolean;
  order: Order;
  onOrder: (order: Order) => void;
}

function Head({ column, title, numeric, order, onOrder }: HeadProps) {
  const mine = order.column === column;
  const down = mine ? !order.down : numeric || column === "last_ms";
  return (
    <th
      scope="col"
      class={numeric ? "num" : ""}
      aria-sort={mine ? (order.down ? "descending" : "ascending") : "none"}
    >
      <button type="button" class="sort" onClick={() => onOrder({ column, down })}>
        {title}
        <span aria-hidden="true">{mine ? (order.down ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

function SenderLine({ row, onExplain }: { row: SenderRow; onExplain: (raw: string) => void }) {
  const { sample } = row;
  const skewed = row.skew_ms !== null && Math.abs(row.skew_ms) >= SKEW_WORTH_MS;
  return (
    <tr class={row.unknown ? "unknown" : ""}>
      <th scope="row">
        <a href={searchFor(row.ip)} title="Search for its events">
          <bdi>{row.ip}</bdi>
        </a>
      </th>
      <td>
        {row.unknown && <span class="tag warm">{unknownWords(row)}</span>}{" "}
        {row.recognised.length > 0 ? (
          <EventText text={row.recognised.join(", ")} />
        ) : (
          !row.unknown && <span class="faint">–</span>
        )}
      </td>
      <td>
        <EventText text={row.format} />
      </td>
      <td class="num">{rate(row.rate)}</td>
      <td class={row.silentAlarm ? "num bad-text" : "num"}>
        {row.silent_ms === null ? "–" : duration(row.silent_ms)}
      </td>
      <td class={skewed ? "num bad-text" : "num"} title="event time less receive time">
        {row.skew_ms === null ? "–" : skew(row.skew_ms)}
        {row.zone !== null && (
          <small class="faint" title="the zone that was guessed for times without one">
            {" "}
            {row.zone}
          </small>
        )}
      </td>
      <td class="nowrap">
        <When ms={row.last_ms} />
      </td>
      <td class="nowrap">
        <When ms={row.first_ms} />
      </td>
      <td class="num">{count(row.events)}</td>
      <td class="num">{bytes(row.bytes)}</td>
      <td>
        <bdi>{row.source}</bdi>
      </td>
      <td>
        {sample !== null && (
          <button
            type="button"
            class="button small"
            aria-label={`Explain a sample of ${row.ip}`}
            onClick={() => onExplain(sample)}
          >
            Explain
          </button>
        )}
      </td>
    </tr>
  );
}

/** `not recognised`, with how many where rules know the others. */
function unknownWords({ unrecognised, events }: SenderRow): string {
  return unrecognised > 0 && unrecognised < events
    ? `${count(unrecognised)} of ${count(events)} not recognised`
    : "not recognised";
}

/** `+3.2 s`: its clock is ahead. */
function skew(ms: number): string {
  return ms > 0 ? `+${duration(ms)}` : duration(ms);
}

/** The day's events of the sender. */
function searchFor(ip: string): string {
  const q = `sender=${quote(ip)}`;
  return routeHash("search", searchParams({ q, since: "24h", until: "", tail: false }));
}
