import assert from "node:assert/strict";
import { test } from "node:test";
import * as query from "../../src/lib/query";

test("a bar within quotes is no pipe", () => {
  assert.equal(query.pipeAt('"a | b" c | count'), 10);
  assert.equal(query.pipeAt('"a \\" | b"'), -1);
  assert.equal(query.isAggregation("a | count"), true);
  assert.equal(query.isAggregation("a"), false);
});

test("values are quoted where they have to be", () => {
  for (const [value, wanted] of [
    ["fw-1", "fw-1"],
    ["cisco:asa", "cisco:asa"],
    ["10.0.0.1", "10.0.0.1"],
    ["/var/log", "/var/log"],
    ["Zürich", "Zürich"],
    ["a b", '"a b"'],
    ["OR", '"OR"'],
    ['say "hi" \\', '"say \\"hi\\" \\\\"'],
    ["a*", '"a*"'],
    ["(x)", '"(x)"'],
    ["", '""'],
  ] as const) {
    assert.equal(query.quote(value), wanted);
  }
});

test("a term is added before the pipe, once", () => {
  const add = (text: string, exclude = false) => query.addTerm(text, "host", "fw-1", exclude);
  assert.equal(add(""), "host=fw-1");
  assert.equal(add("denied"), "denied host=fw-1");
  assert.equal(add("denied host=fw-1"), "denied host=fw-1");
  assert.equal(add("denied | count by host"), "denied host=fw-1 | count by host");
  assert.equal(add("| count"), "host=fw-1 | count");
  assert.equal(add("denied", true), "denied host!=fw-1");
});

test("its opposite gives way", () => {
  assert.equal(query.addTerm("a host!=fw-1 b", "host", "fw-1", false), "a b host=fw-1");
  assert.equal(query.addTerm("a host=fw-1", "host", "fw-1", true), "a host!=fw-1");
});

test("alternatives are kept together", () => {
  assert.equal(query.addTerm("a OR b", "host", "x", false), "(a OR b) host=x");
  assert.equal(query.addTerm('"a OR b"', "host", "x", false), '"a OR b" host=x');
});

test("the words that are marked", () => {
  const words = query.needles(
    'Denied "access list" den*ied -keep NOT this host=fw (a1 OR b2) | top 5 c3',
  );
  assert.deepEqual(words, ["denied", "access list", "den", "ied", "a1", "b2"]);
  assert.deepEqual(query.needles('"a=b"'), ["a=b"]);
  assert.deepEqual(query.needles('"open'), ["open"]);
  assert.deepEqual(query.needles("severity<=3 x"), []);
});

test("a text is cut at its marks and nothing is lost", () => {
  const cut = query.pieces("A denied, DENIED.", ["denied"]);
  assert.deepEqual(
    cut.map((one) => one.hit),
    [false, true, false, true, false],
  );
  assert.equal(cut.map((one) => one.text).join(""), "A denied, DENIED.");
  const many = query.pieces("ab".repeat(5000), ["a"]);
  assert.equal(many.map((one) => one.text).join("").length, 10_000);
  assert.ok(many.length <= 402);
  assert.deepEqual(query.pieces("a(b", ["(b"]).at(-1), { text: "(b", hit: true });
  assert.deepEqual(query.pieces("", ["a"]), [{ text: "", hit: false }]);
});

test("columns count characters, not units of UTF-16", () => {
  assert.deepEqual(query.pointAt("👩👩 host=", 4, 5), ["👩👩 ", "host=", ""]);
  assert.deepEqual(query.pointAt("ab", 3, 1), ["ab", "", ""]);
  assert.deepEqual(query.pointAt("ab", 99, 9), ["ab", "", ""]);
  assert.deepEqual(query.pointAt("ab", 0, 0), ["", "a", "b"]);
});
