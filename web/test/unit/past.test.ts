import assert from "node:assert/strict";
import { test } from "node:test";
import { matching, PAST_MAX, past, remember, type Shelf } from "../../src/lib/past";

function shelf(content: string | null = null): Shelf {
  let kept = content;
  return {
    getItem: () => kept,
    setItem: (_key, value) => {
      kept = value;
    },
  };
}

test("the latest query is first, and once", () => {
  const one = shelf();
  for (const query of ["a", "b", " a ", "c"]) {
    remember(one, query);
  }
  assert.deepEqual(past(one), ["c", "a", "b"]);
});

test("nothing empty and nothing huge is remembered", () => {
  const one = shelf();
  remember(one, "  ");
  remember(one, "x".repeat(5000));
  assert.deepEqual(past(one), []);
});

test("the oldest are forgotten", () => {
  const one = shelf();
  for (let i = 0; i < PAST_MAX + 5; i += 1) {
    remember(one, `query ${i}`);
  }
  assert.equal(past(one).length, PAST_MAX);
  assert.equal(JSON.parse(one.getItem("") ?? "").length, PAST_MAX, "in the storage too");
  assert.equal(past(one).at(-1), "query 5");
});

test("what something else wrote there is passed over", () => {
  assert.deepEqual(past(shelf("no json")), []);
  assert.deepEqual(past(shelf('{"a":1}')), []);
  assert.deepEqual(past(shelf('["a",1,null,"b"]')), ["a", "b"]);
});

test("a browser that keeps nothing loses nothing else", () => {
  const forbidden: Shelf = {
    getItem: () => {
      throw new Error("forbidden");
    },
    setItem: () => {
      throw new Error("full");
    },
  };
  assert.deepEqual(remember(forbidden, "a"), ["a"]);
  assert.deepEqual(past(forbidden), []);
  assert.deepEqual(remember(null, "a"), ["a"]);
});

test("matching is by what was typed, without the very same", () => {
  const list = ["host=fw1 Denied", "denied", "user=root"];
  assert.deepEqual(matching(list, "DENIED"), ["host=fw1 Denied", "denied"]);
  assert.deepEqual(matching(list, " denied "), ["host=fw1 Denied"]);
  assert.deepEqual(matching(list, ""), list);
});
