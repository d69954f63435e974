import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  Files,
  Flow,
  ListedFile,
  SourceFiles,
  StreamPolicy,
  Workload,
} from "../../src/lib/contract";
import {
  FileWindow,
  fittingFiles,
  fittingWorkloads,
  lossesOf,
  partsOf,
  policiesOf,
  pollingOf,
  totalsOf,
} from "../../src/lib/files";
import { readsFiles } from "../../src/lib/sources";

const NO_LOSSES = {
  rotated_away_unread_bytes: 0,
  missed_generations: 0,
  lines_cut: 0,
  partial_flushed: 0,
  malformed_lines: 0,
  holes_skipped: 0,
  truncated: 0,
};

const file = (path: string, more: Partial<ListedFile> = {}): ListedFile => ({
  path,
  state: "live",
  reason: null,
  since_ms: null,
  generation: 0,
  waiting: 0,
  position: 0,
  size: 0,
  lag_bytes: 0,
  lag_s: 0,
  read_bytes: 0,
  joined: 0,
  losses: NO_LOSSES,
  ...more,
});

const stream = (name: string, more: Partial<StreamPolicy> = {}): StreamPolicy => ({
  stream: name,
  excluded: false,
  decided_by: [],
  ...more,
});

const workload = (pod: string, more: Partial<Workload> = {}): Workload => ({
  namespace: "shop",
  workload: "",
  pod,
  uid: "1",
  container: "web",
  metadata: "known",
  streams: [stream("stdout"), stream("stderr")],
  problems: [],
  ...more,
});

const source = (files: ListedFile[], more: Partial<SourceFiles> = {}): SourceFiles => ({
  source: "pods",
  logs: files.length,
  lag_bytes: 0,
  failed: 0,
  refused: 0,
  polled: 0,
  rotated_away_unread_bytes: 0,
  missed_generations: 0,
  polling: [],
  files,
  ...more,
});

const list = (at_ms: number, ...sources: SourceFiles[]): Files => ({ at_ms, sources });

test("a rate is that of the last seconds, and a new process begins anew", () => {
  const window = new FileWindow();
  window.push(list(0, source([file("/a", { read_bytes: 1000 })])));
  assert.equal(window.files()[0]?.bytesRate, null);
  window.push(list(2000, source([file("/a", { read_bytes: 1500 }), file("/new")])));
  assert.deepEqual(
    window.files().map((row) => [row.file.path, row.bytesRate]),
    [
      ["/a", 250],
      ["/new", null],
    ],
  );
  window.push(list(4000, source([file("/a", { read_bytes: 3 })])));
  assert.equal(window.files()[0]?.bytesRate, null, "a total that fell is of another process");
});

test("what cannot be read comes first, then what is most behind", () => {
  const window = new FileWindow();
  const late = file("/late", { lag_bytes: 500, position: 100, size: 600 });
  const denied = file("/denied", { state: "unopened", reason: "no permission" });
  const skipped = file("/pipe", { state: "skipped" });
  window.push(list(0, source([file("/a"), late, denied, skipped])));
  const rows = window.files();
  assert.deepEqual(
    rows.map((row) => row.file.path),
    ["/denied", "/late", "/a", "/pipe"],
  );
  assert.deepEqual(
    rows.map((row) => row.share),
    [null, 1 / 6, 1, null],
  );
});

test("losses that did not happen are not named", () => {
  assert.deepEqual(lossesOf(NO_LOSSES), []);
  const losses = {
    ...NO_LOSSES,
    rotated_away_unread_bytes: 2048,
    missed_generations: 2,
    lines_cut: 3,
  };
  assert.deepEqual(lossesOf(losses), [
    { name: "deleted unread", text: "2.00 KiB" },
    { name: "deleted unopened", text: "2" },
    { name: "cut", text: "3" },
  ]);
});

test("a workload is found by what it is, and has the rate of its own files", () => {
  const window = new FileWindow();
  const ill = workload("b", { problems: ["pod: `inrush.io/index` is empty"] });
  const pods = (bytes: number) =>
    source(
      [
        file("/p/shop_a_1/web/0.log", { read_bytes: bytes, lag_bytes: 7 }),
        file("/p/shop_a_1/web/1.log", { read_bytes: bytes * 2 }),
        file("/p/shop_a_2/web/0.log", { read_bytes: bytes * 9 }),
      ],
      { workloads: [workload("a", { workload: "Deployment x" }), ill] },
    );
  window.push(list(0, pods(10)));
  window.push(list(1000, pods(30)));
  const rows = window.workloads();
  assert.deepEqual(
    rows.map((row) => [row.workload.pod, row.bytesRate, row.lag_bytes]),
    [
      ["b", null, 0],
      ["a", 60, 7],
    ],
  );
  assert.equal(fittingWorkloads(rows, "shop/A").length, 1);
  assert.equal(fittingWorkloads(rows, "deployment x").length, 1);
  assert.equal(fittingWorkloads(rows, "is empty").length, 1);
  assert.equal(fittingWorkloads(rows, " ").length, 2);
});

test("streams with one policy have one row", () => {
  const both = policiesOf([stream("stdout"), stream("stderr")]);
  assert.deepEqual(
    both.map((one) => one.stream),
    [""],
  );
  const each = policiesOf([stream("stdout"), stream("stderr", { index: "errors" })]);
  assert.deepEqual(
    each.map((one) => [one.stream, one.policy.index]),
    [
      ["stdout", undefined],
      ["stderr", "errors"],
    ],
  );
  assert.deepEqual(policiesOf([]), []);
});

test("the filter looks at path, state, reason and source", () => {
  const window = new FileWindow();
  window.push(list(0, source([file("/x/A.log"), file("/y", { state: "failed", reason: "EIO" })])));
  const rows = window.files();
  const found = (filter: string) => fittingFiles(rows, filter).map((row) => row.file.path);
  assert.deepEqual(found("a.LOG"), ["/x/A.log"]);
  assert.deepEqual(found("eio"), ["/y"]);
  assert.deepEqual(found("failed"), ["/y"]);
  assert.deepEqual(found("pods").length, 2);
});

test("totals are of all sources, and unopened names count as those that cannot be read", () => {
  const denied = file("/denied", { state: "unopened" });
  const totals = totalsOf(
    list(
      0,
      source([denied], { logs: 7, failed: 1, lag_bytes: 5, missed_generations: 2 }),
      source([], { logs: 3, rotated_away_unread_bytes: 9, missed_generations: 1 }),
    ),
  );
  assert.deepEqual(totals, {
    logs: 10,
    failed: 2,
    polled: 0,
    lag_bytes: 5,
    deleted: 9,
    missed: 3,
  });
  const cause = { reason: "no_watch", words: "w", since_ms: 1, folder: null, files: 2 };
  assert.deepEqual(pollingOf(list(0, source([], { polling: [cause] }))), [
    { source: "pods", cause },
  ]);
  assert.deepEqual(partsOf("/var/log/a.log"), { folder: "/var/", name: "log/a.log" });
  assert.deepEqual(partsOf("/a.log"), { folder: "", name: "/a.log" });
  assert.deepEqual(partsOf("/p/a\nb/0.log"), { folder: "/p/", name: "a\nb/0.log" });
});

test("the page is there where a source reads files", () => {
  const flow = (...types: string[]) =>
    ({ sources: types.map((type) => ({ type })) }) as unknown as Flow;
  assert.equal(readsFiles(null), false);
  assert.equal(readsFiles(flow("syslog", "splunk_hec")), false);
  assert.equal(readsFiles(flow("syslog", "file")), true);
});
