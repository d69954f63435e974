// Where events come in: each source and each token, with its rate, lag, answers and senders.

import { useMemo, useRef, useState } from "preact/hooks";
import type { Doors } from "../lib/contract";
import { type DoorRow, DoorWindow, type Spread } from "../lib/doors";
import { bytes, count, duration, plural, rate, short } from "../lib/format";
import { usePoll } from "../lib/poll";
import { When } from "../parts/when";

/** Rows that are drawn; the filter finds the others. */
const ROWS_SHOWN = 300;

const EVERY_MS = 2_000;

/** A lag from which on a row is marked, in seconds: the bound of the alarm. */
const LATE_S = 120;

/** A time of requests from which on a row is marked, in seconds: the bound of the alarm. */
const SLOW_S = 5;

export function DoorsPage() {
  const { value, problem } = usePoll<Doors>("api/v1/doors", () => EVERY_MS);
  const window = useRef(new DoorWindow());
  const [filter, setFilter] = useState("");
  const rows = useMemo(() => {
    if (value !== null) {
      window.current.push(value);
    }
    return window.current.rows();
  }, [value]);
  const shown = fitting(rows, filter);
  return (
    <div class="doors">
      <div class="page-head">
        <h1>Doors</h1>
        <p class="status" role="status">
          {problem ? `No answer: ${problem}` : summary(rows, value !== null)}
        </p>
        <input
          type="search"
          class="filter"
          placeholder="Source, token or address"
          aria-label="Filter doors"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </div>
      <section class="panel scroll-x doors-panel" aria-label="Doors">
        <table class="grid">
          <thead>
            <tr>
              <th scope="col">source, token</th>
              <th scope="col" class="num">
                events/s
              </th>
              <th scope="col" class="num">
                bytes/s
              </th>
              <th scope="col" class="num" title="event time to receipt: half, and 99 % within">
                lag
              </th>
              <th scope="col" class="num" title="first byte to answer: half, and 99 % within">
                requests
              </th>
              <th scope="col">answers</th>
              <th scope="col">last request</th>
              <th scope="col">top senders</th>
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, ROWS_SHOWN).map((row) => (
              <DoorLine key={row.key} row={row} />
            ))}
          </tbody>
        </table>
        {shown.length > ROWS_SHOWN && (
          <p class="faint list-end">
            {ROWS_SHOWN} of {count(shown.length)}: the filter finds the others.
          </p>
        )}
      </section>
    </div>
  );
}

function fitting(rows: DoorRow[], filter: string): DoorRow[] {
  const wanted = filter.trim().toLowerCase();
  const text = (row: DoorRow) =>
    [row.name, row.type, ...row.listeners, ...row.senders.map((one) => one.ip)]
      .join("\n")
      .toLowerCase();
  return wanted === "" ? rows : rows.filter((row) => text(row).includes(wanted));
}

function summary(rows: DoorRow[], known: boolean): string {
  if (!known) {
    return "Asking…";
  }
  const tokens = rows.filter((row) => row.isToken && row.name !== "").length;
  const parts = [plural(rows.filter((row) => !row.isToken).length, "source")];
  if (tokens > 0) {
    parts.push(plural(tokens, "token"));
  }
  return parts.join(" · ");
}

function DoorLine({ row }: { row: DoorRow }) {
  return (
    <tr class={row.isToken ? "token" : ""}>
      <th scope="row">
        <DoorName row={row} />
      </th>
      <td class="num door-rate">{rate(row.rate)}</td>
      <td class="num">{row.bytesRate === null ? "–" : bytes(row.bytesRate)}</td>
      <SpreadCell spread={row.lag} bad_s={LATE_S} />
      <SpreadCell spread={row.requests} bad_s={SLOW_S} />
      <td>
        {row.answers.map((one) => (
          <span key={one.code} class={one.bad ? "tag warm" : "tag"} title={one.words}>
            {one.code}
            <small> {short(one.count)}</small>
          </span>
        ))}
        {row.connection_errors > 0 && (
          <span class="tag warm" title="connections refused or ended early">
            {short(row.connection_errors)} refused
          </span>
        )}
      </td>
      <td class="nowrap">{row.last_ms === null ? "–" : <When ms={row.last_ms} />}</td>
      <td>
        {row.senders.map((one) => (
          <span key={one.ip} class="door-sender">
            <bdi>{one.ip}</bdi>{" "}
            <small class="faint">
              {row.senderRates ? `${rate(one.text)}/s` : `${short(one.text)} events`}
            </small>
          </span>
        ))}
      </td>
    </tr>
  );
}

function DoorName({ row }: { row: DoorRow }) {
  if (row.isToken) {
    return (
      <>
        {row.name === "" ? <span class="faint">no known token</span> : <bdi>{row.name}</bdi>}
        {row.disabled && <span class="tag">disabled</span>}
      </>
    );
  }
  return (
    <>
      <bdi>{row.name}</bdi> <small class="faint">{row.type}</small>
      {row.listeners.map((one) => (
        <small key={one} class="faint door-listener">
          {one}
        </small>
      ))}
      {row.connections !== null && row.connections > 0 && (
        <small class="faint door-listener">{plural(row.connections, "connection")}</small>
      )}
    </>
  );
}

/** `≤ 10 ms, 1.0 s`: half of them, and 99 %. */
function SpreadCell({ spread, bad_s }: { spread: Spread | null; bad_s: number }) {
  if (spread === null) {
    return <td class="num">–</td>;
  }
  return (
    <td class="num">
      {within(spread.half_s)}{" "}
      <small class={spread.most_s > bad_s ? "bad-text" : "faint"}>/ {within(spread.most_s)}</small>
    </td>
  );
}

function within(seconds: number): string {
  return Number.isFinite(seconds) ? duration(seconds * 1000) : "> 1 d";
}
