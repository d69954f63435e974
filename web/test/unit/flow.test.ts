import assert from "node:assert/strict";
import { test } from "node:test";
import type { Flow } from "../../src/lib/contract";
import { destinationKey, POINTS, Rates, sourceKey } from "../../src/lib/rates";
import { fit, layRiver, ROWS_MAX } from "../../src/lib/river";
import { holdsAny } from "../../src/lib/sources";

function flow(at_s: number, received: number, more: Partial<Flow> = {}): Flow {
  return {
    at_ms: 1_000_000 + at_s * 1000,
    version: "0",
    started_ms: 1,
    balanced: true,
    sources: [
      {
        name: "s",
        type: "syslog",
        received,
        accepted: received,
        rejected: {},
        kernel_dropped: 0,
        bytes: received * 10,
        connections: 1,
      },
    ],
    filtered: {},
    destinations: [
      {
        name: "d",
        type: "store",
        accepted: received,
        delivered: received,
        pending: 0,
        quarantined: {},
        dropped: {},
        oldest_pending_ms: 5,
        request_ms: 7,
        state: "ok",
      },
    ],
    edges: [{ from: "s", to: "d", events: received }],
    queue: {
      bytes: 0,
      bytes_max: 1,
      disk_bytes: 0,
      disk_bytes_max: 1,
      segments: 1,
      stall: null,
      full_in_s: null,
    },
    threads: [],
    loss: [{ place: "nic", label: "x", count: received > 350 ? 1 : 0, ours: false }],
    alarms: [],
    ...more,
  };
}

test("rates are differences over the last three seconds", () => {
  const rates = new Rates();
  rates.push(flow(0, 0));
  assert.equal(rates.rate("in"), null, "one snapshot has no rate");
  rates.push(flow(1, 100));
  assert.equal(rates.rate("in"), 100);
  rates.push(flow(2, 200));
  rates.push(flow(3, 200));
  rates.push(flow(4, 400));
  assert.equal(rates.rate("in"), 100, "from 1 s to 4 s");
  assert.equal(rates.rate(sourceKey("s", "bytes")), 1000);
  assert.deepEqual(rates.series(sourceKey("s", "received")), [null, 100, 100, 0, 200]);
  assert.deepEqual(rates.series(destinationKey("d", "request_ms")), [7, 7, 7, 7, 7]);
});

test("a loss says when it last rose, and not what was before we looked", () => {
  const rates = new Rates();
  rates.push(flow(0, 300));
  assert.equal(rates.lastRise("loss/nic/x"), null);
  rates.push(flow(1, 400));
  rates.push(flow(2, 500));
  assert.equal(rates.lastRise("loss/nic/x"), 1_001_000);
  const label = { place: "queue" as const, label: "new", count: 1, ours: true };
  rates.push(flow(3, 500, { loss: [label] }));
  assert.equal(rates.lastRise("loss/queue/new"), 1_003_000, "from nothing");
});

test("parts that wait are seen at any source, also where a version tells of none", () => {
  const [source] = flow(0, 0).sources;
  assert.ok(source);
  const held = (...counts: (number | undefined)[]) =>
    holdsAny(flow(0, 0, { sources: counts.map((held) => ({ ...source, held })) }));
  assert.equal(held(), false);
  assert.equal(held(undefined, 0), false);
  assert.equal(held(0, 3), true);
});

test("another process begins anew", () => {
  const rates = new Rates();
  rates.push(flow(0, 1_000_000));
  rates.push(flow(1, 1_000_100));
  rates.push(flow(2, 50, { started_ms: 2 }));
  assert.equal(rates.rate("in"), null);
  rates.push(flow(3, 60, { started_ms: 2 }));
  assert.equal(rates.rate("in"), 10);
});

test("a gap breaks the line and makes no spike", () => {
  const rates = new Rates();
  rates.push(flow(0, 0));
  rates.push(flow(1, 100));
  rates.push(flow(100, 1_000_000));
  assert.deepEqual(rates.series("in"), [null, 100, null]);
  assert.equal(rates.rate("in"), null);
  rates.push(flow(101, 1_000_100));
  assert.equal(rates.rate("in"), 100);
});

test("memory stays: points are few, and names that are gone are forgotten", () => {
  const rates = new Rates();
  for (let i = 0; i < 3 * POINTS; i += 1) {
    rates.push(flow(i, i));
  }
  assert.equal(rates.series("in").length, POINTS);
  rates.push(flow(1000, 1000, { sources: [] }));
  assert.equal(rates.series(sourceKey("s", "received")).length, 0);
});

test("the river stays in its bed, whatever is configured", () => {
  for (const n of [0, 1, 3, 40]) {
    for (const width of [320, 390, 700, 1280]) {
      const one = flow(0, 0);
      const many = <T extends { name: string }>(list: T[]) =>
        Array.from({ length: n }, (_, i) => ({ ...(list[0] as T), name: `${"n".repeat(i)}${i}` }));
      const whole = { ...one, sources: many(one.sources), destinations: many(one.destinations) };
      const rates = new Rates();
      rates.push(whole);
      const river = layRiver(whole, rates, width);
      const boxes = [...river.sources, ...river.destinations, river.queue];
      assert.ok(boxes.length <= 2 * ROWS_MAX + 1);
      for (const box of boxes) {
        assert.ok(box.x >= 0 && box.x + box.width <= width, `${n} at ${width}: ${box.key}`);
        assert.ok(box.y >= 0 && box.y + box.height <= river.height);
      }
      const left = Math.max(0, ...river.sources.map((box) => box.x + box.width));
      const right = Math.min(width, ...river.destinations.map((box) => box.x));
      assert.ok(left < river.gate.x && river.gate.x < river.queue.x);
      assert.ok(river.queue.x + river.queue.width < right);
      for (const band of river.bands) {
        assert.ok(!/NaN|Infinity/.test(band.path), band.path);
      }
    }
  }
});

test("names are cut by characters", () => {
  assert.equal(fit("splunk", 100), "splunk");
  assert.equal(fit("👩".repeat(50), 72), `${"👩".repeat(9)}…`);
});
