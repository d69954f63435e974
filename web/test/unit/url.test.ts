import assert from "node:assert/strict";
import { test } from "node:test";
import * as url from "../../src/lib/url";

test("an address leads to its page, an unknown one to the flow", () => {
  assert.equal(url.parseRoute("#/search?q=a").page, "search");
  assert.equal(url.parseRoute("").page, "flow");
  assert.equal(url.parseRoute("#/nothing").page, "flow");
  assert.equal(url.parseRoute("#/constructor").page, "flow");
});

test("what is asked for survives its way through the address", () => {
  const queries = ['host="a b" & c=1 | count by host', "100%", "a#b?c=d+e", "é\n€ 👩", ""];
  for (const q of queries) {
    for (const state of [
      { q, since: "15m", until: "", tail: false },
      { q, since: "all", until: "", tail: true },
      { q, since: "1700000000000", until: "all", tail: false },
      { q, since: "1700000000000", until: "1700000060000", tail: false },
      { q, since: "15m", until: "2026-01-01T00:00:00Z", tail: false },
    ]) {
      const hash = url.routeHash("search", url.searchParams(state));
      const route = url.parseRoute(hash);
      assert.equal(route.page, "search");
      assert.deepEqual(url.searchOf(route.params), state, hash);
    }
  }
});

test("what is as usual stays out of the address", () => {
  const state = { q: "", since: "15m", until: "", tail: false };
  assert.equal(url.routeHash("search", url.searchParams(state)), "#/search");
});

test("times that are none are not passed on", () => {
  const bad = url.searchOf(new URLSearchParams("since=yesterday&until=javascript:1&q=a"));
  assert.deepEqual(bad, { q: "a", since: "15m", until: "", tail: false });
  for (const text of ["15m", "1w", "1700000000000", "2026-01-01T00:00:00+02:00"]) {
    assert.ok(url.isTime(text), text);
  }
  for (const text of ["", "m", "15 m", "2026-13-41T00:00:00Z", "1e5", "-5m"]) {
    assert.ok(!url.isTime(text), text);
  }
});

test("a query of any length is cut", () => {
  const { q } = url.searchOf(new URLSearchParams({ q: "x".repeat(100_000) }));
  assert.equal(q.length, 8192);
});

test("times before now", () => {
  assert.equal(url.agoMs("15m"), 900_000);
  assert.equal(url.agoMs("7d"), 604_800_000);
  assert.equal(url.agoMs("all"), null);
});

test("a moment survives its way through an input", () => {
  const ms = Date.UTC(2026, 6, 1, 10, 20, 30);
  assert.equal(url.fromLocalInput(url.toLocalInput(ms)), ms);
  assert.equal(url.fromLocalInput(""), null);
});

test("addresses of the API", () => {
  const state = { q: "a&b=c", since: "1h", until: "", tail: false };
  assert.equal(
    url.searchUrl("search", state, { limit: "2" }),
    "api/v1/search?q=a%26b%3Dc&since=1h&limit=2",
  );
  assert.equal(url.searchUrl("tail", state, {}), "api/v1/tail?q=a%26b%3Dc");
});
