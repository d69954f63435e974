import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../src/lib/format";

function table<T>(what: (value: T) => string, rows: [T, string][]): void {
  for (const [value, wanted] of rows) {
    assert.equal(what(value), wanted, String(value));
  }
}

test("whole numbers have separators", () => {
  table(format.count, [
    [0, "0"],
    [12_345, "12,345"],
    [null, "–"],
    [Number.NaN, "–"],
  ]);
});

test("short numbers have three digits and round into the next unit", () => {
  table(format.short, [
    [0, "0"],
    [950, "950"],
    [2.34, "2.3"],
    [999, "999"],
    [1_000, "1.00 k"],
    [12_345, "12.3 k"],
    [999_400, "999 k"],
    [999_950, "1.00 M"],
    [4_560_000, "4.56 M"],
    [-12_345, "-12.3 k"],
    [2e12, "2.00 T"],
    [undefined, "–"],
  ]);
});

test("rates", () => {
  table(format.rate, [
    [0, "0"],
    [0.01, "<0.1"],
    [3.44, "3.4"],
    [9.96, "10"],
    [12_345.4, "12,345"],
    [99_999, "99,999"],
    [123_456, "123 k"],
    [null, "–"],
  ]);
});

test("bytes", () => {
  table(format.bytes, [
    [0, "0 B"],
    [1023, "1,023 B"],
    [1024, "1.00 KiB"],
    [1536, "1.50 KiB"],
    [1_048_575, "1.00 MiB"],
    [16 * 2 ** 30, "16.0 GiB"],
    [2 ** 60, "1024 PiB"],
  ]);
});

test("durations", () => {
  table(format.duration, [
    [0, "0 ms"],
    [0.4, "0.4 ms"],
    [850, "850 ms"],
    [999.7, "1.0 s"],
    [1_200, "1.2 s"],
    [59_949, "60 s"],
    [60_000, "1 min"],
    [200_000, "3 min 20 s"],
    [7_500_000, "2 h 5 min"],
    [187_200_000, "2 d 4 h"],
    [-1_200, "−1.2 s"],
    [null, "–"],
  ]);
});

test("nanoseconds lose nothing on their way", () => {
  assert.equal(format.msOfNs("1700000000123456789"), 1_700_000_000_123.456_8);
  assert.equal(format.msOfNs(1.5e15), 1.5e9);
  assert.ok(Number.isNaN(format.msOfNs("soon")));
  assert.equal(format.rfc3339OfNs(1_700_000_000_123_456_789n), "2023-11-14T22:13:20.123456789Z");
  assert.equal(format.rfc3339OfNs(-1n), "1969-12-31T23:59:59.999999999Z");
  assert.equal(
    format.utc(1_700_000_000_123, "1700000000123456789"),
    "2023-11-14 22:13:20.123456789 UTC",
  );
});

test("a time that is none is shown as none", () => {
  for (const text of [format.day, format.clock, format.moment, format.utc]) {
    assert.equal(text(Number.NaN), "–");
    assert.equal(text(1e30), "–");
  }
});

test("what hides or turns the line is shown", () => {
  assert.equal(format.visible("a\u0000b\u001b[31m\u007f"), "a␀b␛[31m␡");
  assert.equal(format.visible("a\u202Eexe.txt\u200b\ufeff"), "a⟨U+202E⟩exe.txt⟨U+200B⟩⟨U+FEFF⟩");
  assert.equal(format.visible("a\n\tb"), "a␊␉b");
  assert.equal(format.visible("a\n\tb", true), "a\n\tb");
  assert.equal(format.visible("日本 é 👩 <b>&amp;"), "日本 é 👩 <b>&amp;");
});

test("names of severity and facility", () => {
  assert.equal(format.severityName(3), "err");
  assert.equal(format.severityName(9), "9");
  assert.equal(format.severityName(undefined), "");
  assert.equal(format.facilityName(20), "local4");
});

test("shares", () => {
  assert.equal(format.percent(0, 0), "0 %");
  assert.equal(format.percent(1, 200), "0.5 %");
  assert.equal(format.percent(1, 3), "33 %");
});

test("one or many", () => {
  assert.equal(format.plural(1, "event"), "1 event");
  assert.equal(format.plural(1200, "event"), "1,200 events");
  assert.equal(format.sum({ a: 1, b: 2 }), 3);
  assert.equal(format.sum(undefined), 0);
});
