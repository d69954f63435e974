import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { SearchEvent, SearchLine } from "../../src/lib/contract";
import {
  EVENTS_MAX,
  emptyView,
  ROWS_MAX,
  SearchRun,
  type SearchView,
  takeLine,
} from "../../src/lib/search-run";

const event = (id: string, time_ns = "1700000000000000000"): SearchEvent => ({
  type: "event",
  id,
  time_ns,
});

test("every kind of line finds its place; unknown ones are passed over", () => {
  const view = emptyView();
  const lines = [
    { type: "plan", sql: "", from_ms: 0, to_ms: 1, bucket_ms: 1 },
    { type: "histogram", from_ms: 0, bucket_ms: 1, counts: [1] },
    { type: "histogram", from_ms: 0, bucket_ms: 1, counts: [2] },
    event("a"),
    event("a"),
    { type: "news", from: "a later version" },
    { type: "end", matched: 1, elapsed_ms: 1, stopped: null },
    null,
  ] as SearchLine[];
  for (const line of lines) {
    takeLine(view, new Set(view.events.map((one) => one.id)), line);
  }
  assert.deepEqual(view.histogram?.counts, [2], "the last one counts");
  assert.equal(view.events.length, 1, "an event is shown once");
  assert.equal(view.end?.matched, 1);
});

test("what the page holds is bounded", () => {
  const view = emptyView();
  const seen = new Set<string>();
  for (let i = 0; i < EVENTS_MAX + 10; i += 1) {
    takeLine(view, seen, event(`e${i}`));
  }
  for (let i = 0; i < ROWS_MAX + 10; i += 1) {
    takeLine(view, seen, { type: "row", values: [i] });
  }
  assert.equal(view.events.length, EVENTS_MAX);
  assert.equal(view.rows.length, ROWS_MAX);
  assert.equal(view.rowsCut, 10);
});

const realFetch = globalThis.fetch;
after(() => {
  globalThis.fetch = realFetch;
});

/** Answers one request after the other; says what was asked for. */
function answers(...bodies: (string | Response)[]): string[] {
  const asked: string[] = [];
  globalThis.fetch = async (url) => {
    asked.push(String(url));
    const next = bodies.shift() ?? assert.fail("one request too many");
    return typeof next === "string" ? new Response(next) : next;
  };
  return asked;
}

const lines = (...all: unknown[]) => all.map((one) => `${JSON.stringify(one)}\n`).join("");
const end = (stopped: string | null) => ({ type: "end", matched: 9, elapsed_ms: 1, stopped });
const state = { q: "a", since: "1h", until: "", tail: false };

function run(): { run: SearchRun; view: () => SearchView } {
  let view = emptyView();
  const one = new SearchRun((next) => {
    view = next;
  });
  return { run: one, view: () => view };
}

test("older events: none is lost that shares its time, none is shown twice", async () => {
  const t = "1700000000000000005";
  const asked = answers(
    lines(event("c", "1700000000000000009"), event("b", t), end("limit")),
    lines(event("b", t), event("a", t), end(null)),
  );
  const { run: one, view } = run();
  await one.start(state);
  assert.equal(view().more, "yes");
  await one.loadMore();
  assert.deepEqual(
    view().events.map((one) => one.id),
    ["c", "b", "a"],
  );
  assert.equal(view().more, "no");
  const older = new URL(asked[1] ?? "", "http://x/").searchParams;
  assert.equal(older.get("until"), "2023-11-14T22:13:20.000000006Z");
  assert.equal(older.get("limit"), "201");
  assert.equal(older.get("since"), "1h");
});

test("a table is asked for whole, and what is sorted has nothing older", async () => {
  const asked = answers(lines(end(null)), lines(event("a"), end("limit")));
  const { run: one, view } = run();
  await one.start({ ...state, q: "* | count by host, 1h" });
  assert.equal(new URL(asked[0] ?? "", "http://x/").searchParams.get("limit"), null);
  await one.start({ ...state, q: "* | sort -bytes" });
  assert.equal(view().events.length, 1);
  assert.equal(view().more, "no");
});

test("older events that bring nothing new end the asking", async () => {
  answers(lines(event("a"), end("limit")), lines(event("a"), end("limit")));
  const { run: one, view } = run();
  await one.start(state);
  await one.loadMore();
  assert.equal(view().more, "no");
});

test("an answer that ends early is not taken for a whole one", async () => {
  answers(lines(event("a")));
  const { run: one, view } = run();
  await one.start(state);
  assert.equal(view().phase, "failed");
  assert.equal(view().events.length, 1);
  assert.match(view().error?.message ?? "", /ended early/);
});

test("a query that cannot be read says where", async () => {
  const error = { type: "error", message: "what?", column: 3, length: 1 };
  answers(new Response(JSON.stringify(error), { status: 400 }));
  const { run: one, view } = run();
  await one.start(state);
  assert.equal(view().phase, "failed");
  assert.deepEqual(view().error, error);
});

test("an error in the middle of an answer is shown with what came before", async () => {
  answers(lines(event("a"), { type: "error", message: "out of memory" }, end("memory")));
  const { run: one, view } = run();
  await one.start(state);
  assert.equal(view().phase, "failed");
  assert.equal(view().error?.message, "out of memory");
  assert.equal(view().events.length, 1);
});

test("a search that is replaced says nothing any more", async () => {
  let first: (response: Response) => void = () => {};
  let calls = 0;
  globalThis.fetch = (_url, init) => {
    calls += 1;
    return calls > 1
      ? Promise.resolve(new Response(lines(event("new"), end(null))))
      : new Promise((resolve, reject) => {
          first = resolve;
          init?.signal?.addEventListener("abort", () => reject(init.signal?.reason));
        });
  };
  const { run: one, view } = run();
  const old = one.start(state);
  await one.start({ ...state, q: "b" });
  first(new Response(lines(event("old"), end(null))));
  await old;
  assert.equal(view().phase, "done");
  assert.deepEqual(
    view().events.map((one) => one.id),
    ["new"],
  );
});
