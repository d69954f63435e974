import assert from "node:assert/strict";
import { test } from "node:test";
import type { Door, Doors, Times } from "../../src/lib/contract";
import { answersOf, DoorWindow, quantile } from "../../src/lib/doors";

const BOUNDS = [0.1, 1, 10];

const times = (...counts: number[]): Times => ({ counts, sum_s: 0 });

const door = (events: number, more: Partial<Door> = {}): Door => ({
  source: "hec",
  type: "splunk_hec",
  listeners: [],
  connections: 1,
  connection_errors: 0,
  events,
  bytes: events * 10,
  lag: times(events, 0, 0, 0),
  senders: [],
  ...more,
});

const list = (at_ms: number, ...doors: Door[]): Doors => ({ at_ms, bounds_s: BOUNDS, doors });

test("a quantile is the bound of its bucket", () => {
  assert.equal(quantile(BOUNDS, [0, 0, 0, 0], 0.5), null);
  assert.equal(quantile(BOUNDS, [99, 0, 1, 0], 0.99), 0.1);
  assert.equal(quantile(BOUNDS, [98, 0, 2, 0], 0.99), 10);
  assert.equal(quantile(BOUNDS, [0, 0, 0, 1], 0.5), Number.POSITIVE_INFINITY);
});

test("rates and lags are those of the last seconds", () => {
  const window = new DoorWindow();
  window.push(list(0, door(1000)));
  assert.equal(window.rows()[0]?.rate, null);
  window.push(list(2000, door(1100, { lag: times(1000, 50, 50, 0) })));
  const [row] = window.rows();
  assert.deepEqual([row?.rate, row?.bytesRate], [50, 500]);
  assert.deepEqual(row?.lag, { half_s: 1, most_s: 10 });
});

test("a door that was not there before has no rate, and a new process begins anew", () => {
  const window = new DoorWindow();
  window.push(list(0, door(1000)));
  window.push(list(2000, door(1000), door(7, { source: "new" })));
  assert.deepEqual(
    window.rows().map((row) => row.rate),
    [0, null],
  );
  window.push(list(4000, door(3)));
  assert.equal(window.rows()[0]?.rate, null);
});

test("tokens follow their source, refusals are marked", () => {
  const token = (events: number, answers: Record<string, number>) => ({
    name: "pods",
    disabled: false,
    events,
    bytes: 0,
    requests: 0,
    answers,
    last_seen_ms: null,
    lag: times(0, 0, 0, 0),
    senders: [],
  });
  const window = new DoorWindow();
  window.push(list(0, door(0, { tokens: [token(0, {})] })));
  window.push(list(1000, door(9, { tokens: [token(9, { 0: 3, 9: 1, 413: 1 })] })));
  const [source, row] = window.rows();
  assert.deepEqual([source?.isToken, row?.isToken, row?.rate], [false, true, 9]);
  const brief = (row?.answers ?? []).map((one) => [one.code, one.bad]);
  assert.deepEqual(brief, [
    [0, false],
    [9, true],
    [413, true],
  ]);
  assert.equal(answersOf({ 24: 1 })[0]?.words, "taken, queue nearly full");
});
