// Follows a stream of server-sent events and connects again by itself. It is read by fetch rather
// than EventSource: a refusal then has words, a login that ended is noticed, and a stream that
// stands still is given up.

import { ApiError, ask, isAbort, words } from "./api";
import { EventParser, readText, type ServerEvent } from "./lines";

export type StreamState =
  | { kind: "connecting" }
  | { kind: "open" }
  /** Lost; it is tried again by itself. */
  | { kind: "lost"; why: string; since_ms: number }
  /** Refused for good, such as for a query that cannot be read. */
  | { kind: "refused"; error: ApiError };

export interface Follow {
  url: string;
  onMessage: (message: ServerEvent) => void;
  onState: (state: StreamState) => void;
  /** Without a byte for so long, the stream counts as lost. None: it may be silent. */
  silence_ms?: number;
}

/** Milliseconds before the next try: doubled each time, at most the last. */
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

/** Statuses that another try does not change. */
const FINAL: ReadonlySet<number> = new Set([400, 401, 403, 404]);

/** Follows until the returned function is called. */
export function follow(what: Follow): () => void {
  const one = new Follower(what);
  void one.run();
  return () => one.stop();
}

class Follower {
  readonly #what: Follow;
  readonly #stop = new AbortController();
  #tries = 0;
  #lostSince = 0;

  constructor(what: Follow) {
    this.#what = what;
  }

  stop(): void {
    this.#stop.abort();
  }

  get #stopped(): boolean {
    return this.#stop.signal.aborted;
  }

  async run(): Promise<void> {
    this.#what.onState({ kind: "connecting" });
    while (!this.#stopped) {
      const why = await this.#once();
      if (this.#stopped) {
        return;
      }
      if (why instanceof ApiError && FINAL.has(why.status)) {
        this.#what.onState({ kind: "refused", error: why });
        return;
      }
      this.#lostSince ||= Date.now();
      this.#what.onState({ kind: "lost", why: words(why), since_ms: this.#lostSince });
      await this.#pause(RETRY_MS[Math.min(this.#tries, RETRY_MS.length - 1)] ?? 1000);
      this.#tries += 1;
    }
  }

  /** One connection, from its beginning to its end; says why it ended. */
  async #once(): Promise<unknown> {
    const connection = new AbortController();
    const end = () => connection.abort();
    this.#stop.signal.addEventListener("abort", end);
    let silent = false;
    let watchdog: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      clearTimeout(watchdog);
      if (this.#what.silence_ms !== undefined) {
        watchdog = setTimeout(() => {
          silent = true;
          connection.abort();
        }, this.#what.silence_ms);
      }
    };
    heard();
    try {
      const answer = await ask(this.#what.url, { signal: connection.signal });
      if (answer.body === null) {
        return new Error("the answer has no body");
      }
      this.#opened();
      const parser = new EventParser();
      await readText(answer.body, (text) => {
        heard();
        parser.push(text, this.#what.onMessage);
      });
      return new Error("the server ended the stream");
    } catch (error) {
      return silent && isAbort(error) ? new Error("nothing came for too long") : error;
    } finally {
      clearTimeout(watchdog);
      this.#stop.signal.removeEventListener("abort", end);
    }
  }

  #opened(): void {
    this.#tries = 0;
    this.#lostSince = 0;
    this.#what.onState({ kind: "open" });
  }

  /** Waits, but not once the machine says that it has a network again. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        removeEventListener("online", done);
        this.#stop.signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      addEventListener("online", done);
      this.#stop.signal.addEventListener("abort", done);
    });
  }
}
