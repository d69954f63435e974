import assert from "node:assert/strict";
import { test } from "node:test";
import { seriesOf, timeOf } from "../../src/lib/buckets";
import type { Sender } from "../../src/lib/contract";
import { numberRanges } from "../../src/lib/ranges";
import { compare, senderRow, sortSenders } from "../../src/lib/senders";

test("numbers become ranges", () => {
  assert.equal(numberRanges([]), "");
  assert.equal(numberRanges([7]), "7");
  assert.equal(numberRanges([9, 7, 101, 100, 102, 7]), "7,9,100-102");
  assert.equal(numberRanges([10, 9]), "9-10");
});

const sender = (ip: string, more: Partial<Sender> = {}): Sender => ({
  ip,
  source: "syslog",
  events: 1,
  bytes: 2,
  ...more,
});

test("senders of today's server, which tells less", () => {
  const row = senderRow(sender("10.0.0.1", { last_seen_ns: 1.7e18 }));
  assert.equal(row.last_ms, 1.7e12);
  assert.equal(row.first_ms, null);
  assert.equal(row.unknown, false);
  assert.deepEqual(row.recognised, []);
  assert.equal(row.silentAlarm, false);
  assert.equal(row.zone, null);
  assert.equal(row.format, "");
  assert.equal(row.unrecognised, 0);
  assert.equal(senderRow(sender("10.0.0.1", { zone_guessed: "-05:00" })).zone, "-05:00");
});

test("unknown senders are first, then the order that was asked for", () => {
  const rows = [
    sender("10.0.0.10", { rate: 5 }),
    sender("10.0.0.9", { rate: 50, recognised: ["a", "b"] }),
    sender("10.0.0.8", { unknown: true }),
    sender("10.0.0.7", { unknown: 3, rate: 1 }),
  ].map(senderRow);
  const order = (column: "ip" | "rate" | "recognised", down: boolean) =>
    sortSenders(rows, { column, down }).map((row) => row.ip.slice(7));
  assert.deepEqual(order("ip", false), ["7", "8", "9", "10"]);
  assert.deepEqual(order("rate", true), ["7", "8", "9", "10"]);
  assert.deepEqual(order("rate", false), ["8", "7", "10", "9"]);
  assert.deepEqual(order("recognised", true), ["7", "8", "9", "10"]);
});

test("texts are compared as people do, and nothing is smallest", () => {
  assert.ok(compare("fw9", "fw10") < 0);
  assert.ok(compare(null, "a") < 0);
  assert.ok(compare(10, 9) > 0);
  assert.equal(compare(null, undefined), 0);
});

test("times of a table, however they are written", () => {
  assert.equal(timeOf(1_700_000_000_000), 1_700_000_000_000);
  assert.equal(timeOf("1700000000000000000"), 1_700_000_000_000);
  assert.equal(timeOf("2023-11-14T22:13:20Z"), 1_700_000_000_000);
  assert.equal(timeOf("soon"), null);
  assert.equal(timeOf(null), null);
});

const column = (name: string, kind: "text" | "number" | "time") => ({ name, kind });

test("rows become lines over time", () => {
  const lines = seriesOf(
    [column("time", "time"), column("host", "text"), column("count", "number")],
    [
      [2000, "a", 1],
      [1000, "a", 2],
      [1000, "b", 9],
      ["bad", "b", 9],
    ],
  );
  assert.deepEqual(lines, {
    times: [1000, 2000],
    names: ["b", "a"],
    values: [
      [9, 0],
      [2, 1],
    ],
    left: 0,
  });
});

test("stretches of time without events count 0, and what is no count has a gap", () => {
  const minute = 60_000;
  const range = { from_ms: 0, to_ms: 5 * minute, step_ms: minute };
  const columns = [column("time", "time"), column("count", "number"), column("avg(n)", "number")];
  const rows = [
    [minute, 4, 1.5],
    [3 * minute, 2, null],
  ];
  const lines = seriesOf(columns, rows, range);
  assert.deepEqual(
    lines?.times.map((at) => at / minute),
    [0, 1, 2, 3, 4],
  );
  assert.deepEqual(lines?.values, [
    [0, 4, 0, 2, 0],
    [null, 1.5, null, null, null],
  ]);
  const long = { from_ms: 0, to_ms: 1e6 * minute, step_ms: minute };
  const few = seriesOf(columns, rows, long);
  assert.deepEqual(
    few?.times.map((at) => at / minute),
    [0, 1, 2, 3, 4, 999_999],
    "of many stretches those beside a gap",
  );
  assert.deepEqual(few?.values[0], [0, 4, 0, 2, 0, 0]);
});

test("a severity is a group by its name", () => {
  const columns = [column("severity", "text"), column("time", "time"), column("count", "number")];
  const rows = [
    ["err", 1000, 1],
    ["info", 1000, 7],
    ["err", 2000, 2],
  ];
  const lines = seriesOf(columns, rows);
  assert.deepEqual(lines?.names, ["info", "err"]);
  assert.deepEqual(lines?.values, [
    [7, 0],
    [1, 2],
  ]);
});

test("the largest lines are drawn, the others are counted", () => {
  const rows = Array.from({ length: 20 }, (_, i) => [1000, `h${i}`, i] as [number, string, number]);
  const lines = seriesOf([column("t", "time"), column("h", "text"), column("n", "number")], rows);
  assert.equal(lines?.names.length, 8);
  assert.equal(lines?.names[0], "h19");
  assert.equal(lines?.left, 12);
});

test("without a time there is nothing to draw", () => {
  assert.equal(seriesOf([column("h", "text"), column("n", "number")], [["a", 1]]), null);
  assert.equal(seriesOf([column("t", "time"), column("n", "number")], []), null);
});
