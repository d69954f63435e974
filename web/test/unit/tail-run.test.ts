import assert from "node:assert/strict";
import { after, test } from "node:test";
import { TAIL_MAX, TailRun, type TailView } from "../../src/lib/tail-run";

const realFetch = globalThis.fetch;
after(() => {
  globalThis.fetch = realFetch;
});

/** A tail whose stream the test writes; it never ends by itself. */
function tail(): { run: TailRun; push: (from: number, n: number) => void; views: TailView[] } {
  let write: (text: string) => void = () => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      write = (text) => controller.enqueue(new TextEncoder().encode(text));
    },
  });
  globalThis.fetch = async () => new Response(body);
  const views: TailView[] = [];
  const run = new TailRun((view) => views.push(view));
  run.start({ q: "", since: "15m", until: "", tail: true });
  const push = (from: number, n: number) => {
    for (let i = from; i < from + n; i += 1) {
      write(`data: {"type":"event","id":"e${i}","time_ns":"${i}"}\n\n`);
    }
  };
  return { run, push, views };
}

/** The next view of which it is so. */
async function seen(views: TailView[], is: (view: TailView) => boolean): Promise<TailView> {
  for (;;) {
    const view = views.at(-1);
    if (view && is(view)) {
      return view;
    }
    await new Promise(setImmediate);
  }
}

test("what a tail holds is bounded, running and paused; the newest are kept", async () => {
  const { run, push, views } = tail();
  push(0, 5000);
  const running = await seen(views, (view) => view.received === 5000);
  assert.equal(running.events.length, TAIL_MAX);
  assert.equal(running.events[0]?.id, "e4999");
  assert.ok(run.held <= 2 * TAIL_MAX);
  run.pause(true);
  push(5000, 5000);
  const paused = await seen(views, (view) => view.received === 10_000);
  assert.equal(paused.waiting, 5000);
  assert.equal(paused.events[0]?.id, "e4999", "it holds still");
  assert.ok(run.held <= 4 * TAIL_MAX);
  run.pause(false);
  assert.equal(views.at(-1)?.events[0]?.id, "e9999");
  assert.equal(views.at(-1)?.waiting, 0);
  run.stop();
});
