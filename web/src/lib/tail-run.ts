// Events as they arrive, newest first, as many as a person can look at.

import type { SearchEvent } from "./contract";
import { follow, type StreamState } from "./stream";
import { type SearchState, searchUrl } from "./url";

/** Events that are shown; older ones are let go. */
export const TAIL_MAX = 500;

/** Milliseconds between two views: nobody reads faster. */
const VIEW_MS = 250;

export interface TailView {
  state: StreamState;
  paused: boolean;
  /** Newest first. */
  events: SearchEvent[];
  /** Events that came during the pause; those beyond [`TAIL_MAX`] are counted, not kept. */
  waiting: number;
  /** Events that came since the start. */
  received: number;
  /** Events that the server left out because we read too slowly. */
  lagged: number;
}

export class TailRun {
  readonly #onView: (view: TailView) => void;
  #stop: () => void = () => {};
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Newest last, since that is where they are added. */
  #kept: SearchEvent[] = [];
  #waiting: SearchEvent[] = [];
  #view: TailView = {
    state: { kind: "connecting" },
    paused: false,
    events: [],
    waiting: 0,
    received: 0,
    lagged: 0,
  };

  constructor(onView: (view: TailView) => void) {
    this.#onView = onView;
  }

  /** Events in memory. */
  get held(): number {
    return this.#kept.length + this.#waiting.length;
  }

  start(state: SearchState): void {
    this.#stop();
    this.#stop = follow({
      url: searchUrl("tail", state, {}),
      onMessage: ({ event, data }) => this.#take(event, data),
      onState: (next) => {
        this.#view.state = next;
        this.#soon();
      },
    });
  }

  stop(): void {
    this.#stop();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Holds the list still; what comes meanwhile is kept aside. */
  pause(paused: boolean): void {
    this.#view.paused = paused;
    if (!paused) {
      this.#kept = [...this.#kept, ...this.#waiting].slice(-TAIL_MAX);
      this.#waiting = [];
      this.#view.waiting = 0;
    }
    this.#show();
  }

  #take(event: string, data: string): void {
    let value: unknown;
    try {
      value = JSON.parse(data);
    } catch {
      return;
    }
    if (event === "lag") {
      this.#view.lagged += Number((value as { dropped?: number }).dropped ?? 0);
    } else if (event === "message") {
      this.#view.received += 1;
      const list = this.#view.paused ? this.#waiting : this.#kept;
      this.#view.waiting += this.#view.paused ? 1 : 0;
      list.push(value as SearchEvent);
      // Cut now and then rather than for each event.
      if (list.length > 2 * TAIL_MAX) {
        list.splice(0, list.length - TAIL_MAX);
      }
    }
    this.#soon();
  }

  #soon(): void {
    this.#timer ??= setTimeout(() => this.#show(), VIEW_MS);
  }

  #show(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#onView({ ...this.#view, events: this.#kept.slice(-TAIL_MAX).reverse() });
  }
}
