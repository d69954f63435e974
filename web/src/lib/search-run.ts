// One search as it runs: lines come in, a view of them goes out, at most a few times a second.

import { ApiError, ask, isAbort, words } from "./api";
import type {
  Cell,
  Column,
  End,
  Fields,
  Histogram,
  Plan,
  Progress,
  QueryError,
  SearchEvent,
  SearchLine,
} from "./contract";
import { rfc3339OfNs } from "./format";
import { readNdjson } from "./lines";
import { isAggregation } from "./query";
import { type SearchState, searchUrl } from "./url";

/** Events of one answer. */
export const PAGE_EVENTS = 200;

/** Events that the page holds; beyond that a narrower query or an export serves better. */
export const EVENTS_MAX = 5_000;

/** Rows of an aggregation that the page holds. */
export const ROWS_MAX = 10_000;

/** Buckets that are asked for: some ten pixels each on a usual screen. */
const BUCKETS = 90;

/** Milliseconds between two views. */
const VIEW_MS = 80;

export type Phase = "idle" | "running" | "done" | "failed" | "cancelled";

export interface SearchView {
  phase: Phase;
  plan: Plan | null;
  progress: Progress | null;
  histogram: Histogram | null;
  /** Newest first. Grows in place; `events.length` says whether there is news. */
  events: SearchEvent[];
  fields: Fields | null;
  columns: Column[] | null;
  rows: Cell[][];
  end: End | null;
  error: QueryError | null;
  /** Lines that could not be read. */
  bad: number;
  /** Whether older events can be asked for, or are. */
  more: "no" | "yes" | "loading";
  /** Rows beyond [`ROWS_MAX`]. */
  rowsCut: number;
}

export function emptyView(): SearchView {
  return {
    phase: "idle",
    plan: null,
    progress: null,
    histogram: null,
    events: [],
    fields: null,
    columns: null,
    rows: [],
    end: null,
    error: null,
    bad: 0,
    more: "no",
    rowsCut: 0,
  };
}

export class SearchRun {
  readonly #onView: (view: SearchView) => void;
  #view = emptyView();
  /** What the search before showed: its histogram and fields stay until there are new ones. */
  #before = emptyView();
  #state: SearchState = { q: "", since: "15m", until: "", tail: false };
  #abort = new AbortController();
  #seen = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(onView: (view: SearchView) => void) {
    this.#onView = onView;
  }

  /** Begins anew; what ran before is cancelled. */
  async start(state: SearchState): Promise<void> {
    this.#abort.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.#state = state;
    this.#seen.clear();
    // What is shown stays for a moment: a quick answer then changes the page once.
    this.#onView({ ...this.#view, phase: "running", error: null, more: "no" });
    this.#before = this.#shown();
    this.#view = { ...emptyView(), phase: "running" };
    this.#soon();
    // Tables come as whole as the server and this page hold them: one that is cut misleads.
    const url = searchUrl("search", state, {
      ...(isAggregation(state.q) ? {} : { limit: String(PAGE_EVENTS) }),
      buckets: String(BUCKETS),
    });
    await this.#read(url, abort, (line) => takeLine(this.#view, this.#seen, line));
    if (this.#abort === abort) {
      this.#ended();
    }
  }

  /** Stops what runs; what came so far stays. */
  cancel(): void {
    this.#abort.abort();
    if (this.#view.phase === "running") {
      this.#view.phase = "cancelled";
    }
    if (this.#view.more === "loading") {
      this.#view.more = "yes";
    }
    this.#show();
  }

  /** Leaves the page: nothing is shown any more. */
  dispose(): void {
    this.#abort.abort();
    clearTimeout(this.#timer);
  }

  /** Asks for the events before the oldest. */
  async loadMore(): Promise<void> {
    const view = this.#view;
    if (view.more !== "yes" || view.phase === "running") {
      return;
    }
    const abort = new AbortController();
    this.#abort = abort;
    view.more = "loading";
    this.#show();
    const before = view.events.length;
    await this.#read(this.#olderUrl(), abort, (line) => {
      if (line.type === "event" || line.type === "error") {
        takeLine(this.#view, this.#seen, line);
      }
      if (line.type === "end") {
        this.#view.more = hasMore(this.#view, line.stopped === "limit");
      }
    });
    if (this.#abort === abort) {
      if (this.#view.more === "loading") {
        this.#view.more = "no";
      }
      if (this.#view.events.length === before) {
        this.#view.more = "no";
      }
      this.#show();
    }
  }

  /**
   * Older events: up to and with the time of the oldest, since others may share it; those that
   * are known are asked for in addition and left out by their id. No buckets: the histogram and
   * the fields are of the whole search, and known.
   */
  #olderUrl(): string {
    const oldest = this.#view.events.at(-1)?.time_ns ?? "0";
    const shared = this.#view.events.filter((event) => event.time_ns === oldest).length;
    const until = rfc3339OfNs(BigInt(oldest) + 1n);
    return searchUrl(
      "search",
      { ...this.#state, until },
      { limit: String(PAGE_EVENTS + shared), buckets: "0" },
    );
  }

  async #read(url: string, abort: AbortController, take: (line: SearchLine) => void) {
    try {
      const answer = await ask(url, { signal: abort.signal });
      if (answer.body === null) {
        throw new Error("the answer has no body");
      }
      await readNdjson(
        answer.body,
        (value) => {
          if (!abort.signal.aborted) {
            take(value as SearchLine);
            this.#soon();
          }
        },
        () => {
          this.#view.bad += 1;
        },
      );
    } catch (error) {
      if (!isAbort(error) && this.#abort === abort) {
        this.#view.error = errorOf(error);
      }
    }
  }

  #ended(): void {
    const view = this.#view;
    if (view.phase === "running") {
      const cut = view.end === null && view.error === null;
      if (cut) {
        view.error = {
          type: "error",
          message: "the answer ended early: what came so far is shown",
        };
      }
      view.phase = view.error ? "failed" : "done";
      // Events in an order of their own have none that are older.
      const sorted = isAggregation(this.#state.q);
      view.more = sorted ? "no" : hasMore(view, view.end?.stopped === "limit");
    }
    this.#show();
  }

  #soon(): void {
    this.#timer ??= setTimeout(() => this.#show(), VIEW_MS);
  }

  #show(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#onView(this.#shown());
  }

  #shown(): SearchView {
    const { histogram, fields } = this.#view.phase === "running" ? this.#before : this.#view;
    return {
      ...this.#view,
      histogram: this.#view.histogram ?? histogram,
      fields: this.#view.fields ?? fields,
    };
  }
}

function hasMore(view: SearchView, limited: boolean): "yes" | "no" {
  const room = view.events.length > 0 && view.events.length < EVENTS_MAX;
  return limited && room && view.columns === null ? "yes" : "no";
}

function errorOf(error: unknown): QueryError {
  if (error instanceof ApiError && error.detail) {
    return error.detail;
  }
  return { type: "error", message: words(error) };
}

/** Enters one line into the view. Lines of a kind that is not known are passed over. */
export function takeLine(view: SearchView, seen: Set<string>, line: SearchLine): void {
  switch (line?.type) {
    case "plan":
      view.plan = line;
      break;
    case "progress":
      view.progress = line;
      break;
    case "histogram":
      view.histogram = line;
      break;
    case "event":
      if (!seen.has(line.id) && view.events.length < EVENTS_MAX) {
        seen.add(line.id);
        view.events.push(line);
      }
      break;
    case "fields":
      view.fields = line;
      break;
    case "table":
      view.columns = line.columns;
      break;
    case "row":
      if (view.rows.length < ROWS_MAX) {
        view.rows.push(line.values);
      } else {
        view.rowsCut += 1;
      }
      break;
    case "end":
      view.end = line;
      break;
    case "error":
      view.error = line;
      break;
  }
}
