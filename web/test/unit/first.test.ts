// The hint for a first event: this server's addresses, whatever the configuration says.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Door } from "../../src/lib/contract";
import { firstEvent } from "../../src/lib/first";

function hint(listeners: string[], page: string) {
  return firstEvent([{ name: "s", listeners } as unknown as Door], page);
}

test("the command names the port that is open, and the host of the page", () => {
  const any = hint(["udp://0.0.0.0:22002", "tcp://[::]:22002"], "log.example");
  assert.match(any.command ?? "", /^logger --server log\.example --port 22002 --tcp /);
  assert.deepEqual(any.listens, ["udp port 22002", "tcp port 22002"]);
  assert.equal(any.local, false);
});

test("an address of loopback is for this machine, and another one is named", () => {
  const own = hint(["tcp://[::1]:601"], "log.example");
  assert.match(own.command ?? "", /--server ::1 --port 601 --tcp/);
  assert.equal(own.local, true);
  const other = hint(["udp://10.1.2.3:514"], "log.example");
  assert.match(other.command ?? "", /--server 10\.1\.2\.3 --port 514 --udp/);
  assert.equal(hint(["udp://0.0.0.0:514"], "[::1]").local, true);
});

test("without an address that logger sends to there is no command", () => {
  assert.deepEqual(hint([], "x"), { command: null, listens: [], local: false });
  assert.deepEqual(hint(["https://0.0.0.0:8088"], "x").listens, ["https port 8088"]);
  assert.equal(hint(["https://0.0.0.0:8088"], "x").command, null);
});
