// How far the search is, what it found, and what can be done with that.

import type { End } from "../lib/contract";
import { bytes, count, duration, plural, short, visible } from "../lib/format";
import { EVENTS_MAX, type SearchView } from "../lib/search-run";
import { RANGES, type SearchState, searchUrl } from "../lib/url";
import { FirstEvent } from "../parts/first-event";
import { Icon } from "../parts/icon";
import { Prose } from "../parts/prose";

interface Props {
  state: SearchState;
  view: SearchView;
  onShare: () => void;
}

export function StatusLine({ state, view, onShare }: Props) {
  const { progress, phase } = view;
  const done =
    progress && progress.files_total > 0 ? progress.files_done / progress.files_total : 0;
  return (
    <div class="status-line">
      <p class="status" role="status">
        {statusWords(view)}
      </p>
      <progress
        max={1}
        value={phase === "running" ? done : 0}
        aria-label="Progress"
        hidden={phase !== "running"}
      />
      <div class="status-tools">
        <button type="button" class="button small" onClick={onShare}>
          <Icon name="link" /> Share
        </button>
        {(["json", "csv"] as const).map((format) => (
          <a
            key={format}
            class="button small"
            href={searchUrl("export", state, { format })}
            download={`inrush-search.${format}`}
          >
            <Icon name="download" /> {format.toUpperCase()}
          </a>
        ))}
      </div>
    </div>
  );
}

/** Why an answer is not whole. */
const STOPPED = {
  limit: "",
  time: " · stopped: it took too long, narrow the time range",
  memory: " · stopped: it needs too much memory, narrow the query",
  cancelled: " · cancelled",
};

function statusWords(view: SearchView): string {
  const { phase, progress, end, events, rows, columns } = view;
  const bad = view.bad > 0 ? ` · ${plural(view.bad, "line")} could not be read` : "";
  if (phase === "running") {
    const scanned = progress
      ? ` · ${short(progress.events_scanned)} events, ${bytes(progress.bytes_scanned)} looked at`
      : "";
    return `Searching…${scanned}`;
  }
  if (phase === "cancelled") {
    return `Cancelled · ${plural(events.length || rows.length, columns ? "row" : "event")} until then${bad}`;
  }
  if (phase === "failed") {
    return `Failed${bad}`;
  }
  if (!end) {
    return "";
  }
  const cut = view.rowsCut > 0 ? ` · ${count(view.rowsCut)} more rows are in the export` : "";
  const stopped = end.stopped ? STOPPED[end.stopped] : "";
  // A server that stops at the limit has not counted the others, but the histogram has.
  const inBuckets = view.histogram?.counts.reduce((a, b) => a + b, 0) ?? 0;
  const matched = Math.max(end.matched, inBuckets, events.length);
  const shown = columns
    ? `${rowWords(rows.length, end)} from ${plural(matched, "event")}`
    : `${plural(matched, "event")}${shownWords(events.length, matched)}`;
  const aside = asideWords(end.set_aside ?? []);
  return `${shown} in ${duration(end.elapsed_ms)}${stopped}${aside}${cut}${bad}`;
}

/** What is missing because its file could not be read; the log names all of them. */
function asideWords(files: NonNullable<End["set_aside"]>): string {
  const [first] = files;
  if (first === undefined) {
    return "";
  }
  const named = `${visible(first.path)}: ${visible(first.reason)}`;
  const more = files.length > 1 ? `, and ${plural(files.length - 1, "more file")}` : "";
  return ` · without what could not be read (${named}${more})`;
}

/** `200 of 236 rows`, where not all are shown. */
function rowWords(shown: number, end: End): string {
  const all = end.rows ?? shown;
  if (end.stopped !== "limit" || (all <= shown && !end.rows_more)) {
    return plural(shown, "row");
  }
  const more = end.rows_more ? "more than " : "";
  return `the first ${count(shown)} of ${more}${count(all)} rows`;
}

function shownWords(shown: number, matched: number): string {
  return shown > 0 && shown < matched
    ? `, the latest ${count(shown)}${shown >= EVENTS_MAX ? " (at most)" : ""} shown,`
    : "";
}

interface NoEventsProps {
  state: SearchState;
  /** Words to write instead. */
  hints: readonly string[];
  onGo: (change: Partial<SearchState>) => void;
}

/** Nothing was found: what to try next. */
export function NoEvents({ state, hints, onGo }: NoEventsProps) {
  const at = (RANGES as readonly string[]).indexOf(state.since);
  const wider = state.until === "" && at >= 0 ? RANGES[at + 1] : "24h";
  const everything = state.since === "all" && state.until === "";
  if (everything && state.q === "") {
    return (
      <div class="empty">
        <h2>No events yet</h2>
        <FirstEvent />
      </div>
    );
  }
  return (
    <div class="empty">
      <h2>No events match</h2>
      <p class="faint">
        {state.q === ""
          ? "Nothing arrived in this time."
          : "Nothing in this time has all of these terms."}
      </p>
      {hints.map((hint) => (
        <p key={hint}>
          <Prose text={hint} />
        </p>
      ))}
      <p class="empty-tools">
        {!everything && wider && (
          <button
            type="button"
            class="button primary"
            onClick={() => onGo({ since: wider, until: "" })}
          >
            {wider === "all" ? "Search all of time" : `Search the last ${wider}`}
          </button>
        )}
        {state.q !== "" && (
          <button type="button" class="button" onClick={() => onGo({ q: "" })}>
            Clear the query
          </button>
        )}
      </p>
    </div>
  );
}
