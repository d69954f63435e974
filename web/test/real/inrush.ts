// The built binary as a process of a test: its configuration, its addresses, events for it, and a
// collector that refuses what is poison.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { type AddressInfo, createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

/** Milliseconds that anything may take before its test fails; one that passes never waits so long. */
const DEADLINE_MS = 60_000;

function binary(): string {
  const built = resolve("..", "target", "debug", "inrush");
  const path = process.env.INRUSH_BIN ?? built;
  assert.ok(existsSync(path), `${path} is missing: \`make web && cargo build -p inrush\` first`);
  return path;
}

export class Inrush {
  readonly folder: string;
  readonly #process: ChildProcess;
  #stderr = "";
  #ended: number | null | undefined;

  private constructor(folder: string, process: ChildProcess) {
    this.folder = folder;
    this.#process = process;
    process.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    process.on("exit", (code) => {
      this.#ended = code;
    });
  }

  /** Starts it with `yaml`, in which `{dir}` is a new folder, and waits until it is ready. */
  static async start(yaml: string, folder?: string): Promise<Inrush> {
    const dir = folder ?? (await newFolder());
    const config = join(dir, "inrush.yaml");
    await writeFile(config, yaml.replaceAll("{dir}", dir));
    const args = ["run", "-c", config, "--data-dir", join(dir, "data")];
    const child = spawn(binary(), args, { stdio: ["ignore", "ignore", "pipe"] });
    const inrush = new Inrush(dir, child);
    await eventually("Inrush to be ready", () => {
      assert.equal(inrush.#ended, undefined, `it ended:\n${inrush.#stderr}`);
      return inrush.#stderr.includes("inrush: ready") || null;
    });
    return inrush;
  }

  /** SIGTERM, and how it ended; its folder goes. */
  async stop(): Promise<void> {
    this.#process.kill("SIGTERM");
    await eventually("Inrush to end", () => (this.#ended === undefined ? null : true));
    await rm(this.folder, { recursive: true, force: true });
    assert.equal(this.#ended, 0, this.#stderr);
    assert.match(this.#stderr, /ledger balanced/);
  }

  /** The dashboard's address. */
  get url(): string {
    return `${this.#said(/ inrush: admin on (\S+)$/m)}/`;
  }

  /** Sends lines over TCP on a connection of their own. */
  async send(lines: string[]): Promise<void> {
    const [host = "", port] = this.#said(/ inrush: listening on tcp:\/\/(\S+)/m).split(":");
    await new Promise<void>((done, failed) => {
      const socket = createConnection(Number(port), host);
      socket.on("error", failed).on("close", () => done());
      socket.end(lines.map((line) => `${line}\n`).join(""));
      socket.resume();
    });
  }

  /** Asks the API as a script does, with `headers`. */
  async json<T>(path: string, headers: Record<string, string> = {}): Promise<T> {
    const answer = await fetch(new URL(path, this.url), { headers });
    assert.equal(answer.status, 200, `${path}: ${answer.status}`);
    return (await answer.json()) as T;
  }

  /** Waits until a search for everything finds at least so many events. */
  async searchable(events: number): Promise<void> {
    await eventually(`${events} searchable events`, async () => {
      const answer = await fetch(new URL("api/v1/search?q=&since=all&limit=1", this.url));
      const lines = (await answer.text()).trim().split("\n");
      assert.equal(answer.status, 200, lines[0]);
      const end = lines.map((line) => JSON.parse(line)).find((line) => line.type === "end");
      return end.matched >= events ? true : null;
    });
  }

  #said(pattern: RegExp): string {
    const found = pattern.exec(this.#stderr)?.[1];
    assert.ok(found, `nothing like ${pattern} in:\n${this.#stderr}`);
    return found;
  }
}

export function newFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), "inrush-real-"));
}

/** Asks until it is there. */
export async function eventually<T>(
  what: string,
  probe: () => T | null | Promise<T | null>,
): Promise<T> {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const found = await probe();
    if (found !== null) {
      return found;
    }
    assert.ok(Date.now() < end, `in vain: ${what}`);
    await pause(20);
  }
}

/** A Splunk collector that takes everything but what is poison, until it is healed. */
export class Collector {
  readonly #server: Server;
  readonly taken: string[] = [];
  healed = false;

  private constructor() {
    this.#server = createServer((request, response) => {
      let body = "";
      request.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      request.on("end", () => {
        const bad = body.includes("poison") && !this.healed;
        const good = { text: "Success", code: 0 };
        const refused = { text: "Invalid data format", code: 6, "invalid-event-number": 0 };
        if (!bad) {
          this.taken.push(body);
        }
        response
          .writeHead(bad ? 400 : 200, { "content-type": "application/json" })
          .end(JSON.stringify(bad ? refused : good));
      });
    });
  }

  static async start(): Promise<Collector> {
    const one = new Collector();
    await new Promise<void>((done) => one.#server.listen(0, "127.0.0.1", done));
    return one;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((done) => this.#server.close(() => done()));
  }
}
