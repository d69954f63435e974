import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser, LineSplitter, readNdjson, type ServerEvent } from "../../src/lib/lines";

/** A body that comes in exactly these pieces. */
function body(...parts: (string | Uint8Array)[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    start(controller) {
      for (const part of parts) {
        controller.enqueue(typeof part === "string" ? encoder.encode(part) : part);
      }
      controller.close();
    },
  });
}

async function read(
  ...parts: (string | Uint8Array)[]
): Promise<{ values: unknown[]; bad: number }> {
  const values: unknown[] = [];
  let bad = 0;
  await readNdjson(
    body(...parts),
    (value) => values.push(value),
    () => {
      bad += 1;
    },
  );
  return { values, bad };
}

test("NDJSON is read wherever it is cut", async () => {
  const text = '{"a":1}\n{"a":"é\\n€"}\r\n\n{"a":3}';
  const bytes = new TextEncoder().encode(text);
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const { values, bad } = await read(bytes.slice(0, cut), bytes.slice(cut));
    assert.deepEqual(values, [{ a: 1 }, { a: "é\n€" }, { a: 3 }], `cut at ${cut}`);
    assert.equal(bad, 0);
  }
});

test("a line that is no JSON costs that line alone", async () => {
  const { values, bad } = await read('{"a":1}\n{"a":\n<html>\n{"a":2}\n');
  assert.deepEqual(values, [{ a: 1 }, { a: 2 }]);
  assert.equal(bad, 2);
});

test("a fault of the reader of values is not taken for a bad line", async () => {
  const read = readNdjson(
    body('{"a":1}\n'),
    () => {
      throw new Error("mine");
    },
    () => assert.fail("counted as bad"),
  );
  await assert.rejects(read, /mine/);
});

test("a line without an end does not grow beyond the limit", () => {
  const lines: string[] = [];
  const splitter = new LineSplitter(10);
  splitter.push("short\n", (line) => lines.push(line));
  for (let i = 0; i < 100; i += 1) {
    splitter.push("xxxxxxxxxx", (line) => lines.push(line));
    assert.ok(splitter.waiting <= 10);
  }
  splitter.push("end\nnext\n", (line) => lines.push(line));
  assert.deepEqual(lines, ["short", "next"]);
  assert.equal(splitter.overlong, 1);
});

test("a line that is too long within one piece is left out too", () => {
  const lines: string[] = [];
  const splitter = new LineSplitter(10);
  splitter.push(`a\n${"x".repeat(11)}\nb\n`, (line) => lines.push(line));
  assert.deepEqual(lines, ["a", "b"]);
  assert.equal(splitter.overlong, 1);
});

const STREAM =
  ': hello\n\ndata: one\n\nevent: lag\r\ndata:{"dropped":3}\r\n\r\ndata: a\rdata:  b\r\r' +
  "event: nothing\n\nid: 7\nretry: 10\ndata\n\ndata: cut off";

const MESSAGES: ServerEvent[] = [
  { event: "message", data: "one" },
  { event: "lag", data: '{"dropped":3}' },
  { event: "message", data: "a\n b" },
  { event: "message", data: "" },
];

test("server-sent events are read wherever they are cut", () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    const got: ServerEvent[] = [];
    const parser = new EventParser();
    parser.push(STREAM.slice(0, cut), (message) => got.push(message));
    parser.push(STREAM.slice(cut), (message) => got.push(message));
    assert.deepEqual(got, MESSAGES, `cut at ${cut}`);
  }
});
