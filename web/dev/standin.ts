// A stand-in for Inrush's admin listener: it serves dist/ under the strict policy and answers the
// whole contract with a plausible living state. For the page's own tests and for working on it.

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import type { QuarantineEntry } from "../src/lib/contract";
import { eventOf, STEP_MS } from "./events";
import { parseQuery, Unreadable } from "./query";
import { type Asked, answer, askedOf } from "./search";
import { World } from "./world";

export interface Options {
  port: number;
  /** The password; null: nobody has to log in. */
  password: string | null;
  hostile: boolean;
  empty: boolean;
  calm: boolean;
  /** Milliseconds between two lines of a search. */
  slow_ms: number;
  /** How much faster than the clock the flow goes by. */
  speed: number;
  /** Whether the flow's stream begins in silence. */
  silent: boolean;
}

const DEFAULTS: Options = {
  port: 0,
  password: null,
  hostile: false,
  empty: false,
  calm: false,
  slow_ms: 0,
  speed: 1,
  silent: false,
};

/** What the real server says, word for word. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
  "img-src 'self' data:; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const TYPES: Record<string, string> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
};

export class Standin {
  readonly options: Options;
  readonly #server: Server;
  readonly #world: World;
  readonly #born = Date.now();
  #quarantine: QuarantineEntry[];
  readonly #streams = new Set<ServerResponse>();
  readonly #tails = new Set<ServerResponse>();
  #session: string | null = null;
  readonly #csrf = randomBytes(12).toString("hex");
  /** While set, the flow's stream is open and says nothing. */
  silent: boolean;
  /** While set, every answer of the API is 503. */
  failing = false;
  /** While set, a search stops after its first lines until it is let go or cancelled. */
  #held: Promise<void> | null = null;
  #letGo: () => void = () => {};
  /** Searches whose reader went away before the end. */
  cancelled = 0;
  /** What was asked for, as `METHOD path?query`. */
  readonly asked: string[] = [];

  private constructor(options: Options) {
    this.options = options;
    this.silent = options.silent;
    this.#world = new World(options);
    this.#quarantine = this.#world.quarantine();
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        console.error(error);
        response.destroy();
      });
    });
  }

  static async start(options: Partial<Options> = {}): Promise<Standin> {
    const one = new Standin({ ...DEFAULTS, ...options });
    await new Promise<void>((done) => one.#server.listen(one.options.port, "127.0.0.1", done));
    return one;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  async stop(): Promise<void> {
    this.letGo();
    this.#server.closeAllConnections();
    await new Promise<void>((done) => this.#server.close(() => done()));
  }

  /** Ends every open stream, as a restart would. */
  breakStreams(): void {
    for (const one of [...this.#streams, ...this.#tails]) {
      one.destroy();
    }
    this.#streams.clear();
    this.#tails.clear();
  }

  get tails(): number {
    return this.#tails.size;
  }

  /** Sends an event to all who tail. */
  pushTail(number: number): void {
    const event = { ...eventOf(number, this.options.hostile), id: `t${number}` };
    for (const one of this.#tails) {
      one.write(`data: ${JSON.stringify(event)}\n\n`);
    }
  }

  pushLag(dropped: number): void {
    for (const one of this.#tails) {
      one.write(`event: lag\ndata: ${JSON.stringify({ dropped })}\n\n`);
    }
  }

  hold(): void {
    this.#held = new Promise((done) => {
      this.#letGo = done;
    });
  }

  letGo(): void {
    this.#letGo();
    this.#held = null;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    this.asked.push(`${request.method} ${url.pathname}${url.search}`);
    response.setHeader("content-security-policy", POLICY);
    response.setHeader("x-content-type-options", "nosniff");
    response.setHeader("referrer-policy", "no-referrer");
    response.setHeader("cache-control", "no-store");
    const path = url.pathname.replace(/^\/api\/v1/, "");
    if (url.pathname === path) {
      await this.#file(path, response);
    } else if (this.failing) {
      json(response, 503, { error: "the stand-in was told to fail" });
    } else if (!this.#isOpen(path, request)) {
      json(response, 401, { error: "log in first" });
    } else if (request.method === "POST" && request.headers["x-inrush-csrf"] !== this.#csrf) {
      json(response, 403, { error: "the x-inrush-csrf header is missing or old" });
    } else if (request.method === "POST") {
      await this.#change(path, url.searchParams, request, response);
    } else {
      await this.#look(path, url.searchParams, request, response);
    }
  }

  #isOpen(path: string, request: IncomingMessage): boolean {
    const free = ["/session", "/login"].includes(path);
    return free || this.options.password === null || this.#isIn(request);
  }

  #isIn(request: IncomingMessage): boolean {
    return this.#session !== null && (request.headers.cookie ?? "").includes(this.#session);
  }

  async #file(path: string, response: ServerResponse): Promise<void> {
    const name = path === "/" ? "index.html" : path.slice(1);
    const known = /^[\w-]+\.(html|js|css)$/.exec(name);
    const bytes = known ? await readFile(resolve("dist", name)).catch(() => null) : null;
    if (!known || bytes === null) {
      json(response, 404, { error: `no such path: ${path}` });
      return;
    }
    if (name !== "index.html") {
      response.setHeader("cache-control", "public, max-age=31536000, immutable");
    }
    response.writeHead(200, { "content-type": TYPES[known[1] ?? ""] ?? "" }).end(bytes);
  }

  async #look(
    path: string,
    params: URLSearchParams,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    switch (path) {
      case "/session": {
        const required = this.options.password !== null;
        const user = required && this.#isIn(request) ? "admin" : null;
        return json(response, 200, { required, user, csrf: this.#csrf });
      }
      case "/flow":
        return json(response, 200, this.#world.flow());
      case "/flow/stream":
        return this.#flowStream(response);
      case "/search":
        return this.#search(params, response);
      case "/tail":
        return this.#tail(params, response);
      case "/export":
        return this.#export(params, response);
      case "/senders":
        return json(response, 200, { senders: this.#world.senders() });
      case "/doors":
        return json(response, 200, this.#world.doors());
      case "/files":
        return json(response, 200, this.#world.files());
      case "/quarantine":
        return this.#list(params, response);
      default:
        return json(response, 404, { error: `no such path: ${path}` });
    }
  }

  async #change(
    path: string,
    params: URLSearchParams,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const body = await bodyOf(request);
    if (path === "/login") {
      return this.#login(body, response);
    }
    if (path === "/logout") {
      this.#session = null;
      response.writeHead(204).end();
      return;
    }
    if (path === "/explain") {
      return json(response, 200, explained(body));
    }
    if (path === "/quarantine/replay" || path === "/quarantine/drop") {
      const fit = this.#fitting(params);
      this.#quarantine = this.#quarantine.filter((one) => !fit.includes(one));
      const replayed = { replayed: fit.length, left_behind: 0, not_configured: 0 };
      return json(response, 200, path.endsWith("drop") ? { dropped: fit.length } : replayed);
    }
    json(response, 404, { error: `no such path: ${path}` });
  }

  #login(body: string, response: ServerResponse): void {
    const { password } = JSON.parse(body) as { password?: string };
    if (password !== this.options.password) {
      json(response, 401, { error: "wrong password" });
      return;
    }
    this.#session = randomBytes(18).toString("hex");
    const cookie = `inrush_session=${this.#session}; HttpOnly; SameSite=Strict; Path=/`;
    response.writeHead(204, { "set-cookie": cookie }).end();
  }

  #flowStream(response: ServerResponse): void {
    const flow = () =>
      this.#world.flow(this.#born + (Date.now() - this.#born) * this.options.speed);
    const send = () => !this.silent && response.write(`data: ${JSON.stringify(flow())}\n\n`);
    events(response);
    send();
    const timer = setInterval(send, 1000 / this.options.speed);
    this.#streams.add(response);
    response.on("close", () => {
      clearInterval(timer);
      this.#streams.delete(response);
    });
  }

  #tail(params: URLSearchParams, response: ServerResponse): void {
    try {
      parseQuery(params.get("q") ?? "");
    } catch (error) {
      unreadable(error, response);
      return;
    }
    events(response);
    response.write(": ready\n\n");
    this.#tails.add(response);
    response.on("close", () => this.#tails.delete(response));
  }

  async #search(params: URLSearchParams, response: ServerResponse): Promise<void> {
    let asked: Asked;
    try {
      asked = askedOf(params, Date.now());
    } catch (error) {
      return unreadable(error, response);
    }
    response.writeHead(200, { "content-type": "application/x-ndjson" });
    let gone = false;
    response.on("close", () => {
      gone = !response.writableFinished;
      this.cancelled += gone ? 1 : 0;
    });
    const source = { everyHostile: this.options.hostile, empty: this.options.empty };
    let lines = 0;
    for (const line of answer(asked, source)) {
      response.write(`${JSON.stringify(line)}\n`);
      lines += 1;
      if (this.options.slow_ms > 0) {
        await new Promise((done) => setTimeout(done, this.options.slow_ms));
      } else if (line.type === "progress" || response.writableNeedDrain) {
        await new Promise(setImmediate);
      }
      if (this.#held && lines >= 10) {
        await Promise.race([this.#held, new Promise((done) => response.on("close", done))]);
      }
      if (gone) {
        return;
      }
    }
    response.end();
  }

  #export(params: URLSearchParams, response: ServerResponse): void {
    const format = params.get("format") === "csv" ? "csv" : "json";
    const lines = [...answer(askedOf(params, Date.now()), { everyHostile: false, empty: false })];
    const found = lines.filter((line) => line.type === "event");
    const rows = found.map((event) =>
      format === "csv" ? `${event.time_ns},${JSON.stringify(event.host)}` : JSON.stringify(event),
    );
    response.setHeader("content-disposition", `attachment; filename="inrush-search.${format}"`);
    response.writeHead(200, { "content-type": format === "csv" ? "text/csv" : "application/json" });
    response.end(rows.join("\n"));
  }

  #list(params: URLSearchParams, response: ServerResponse): void {
    const fit = this.#fitting(params);
    const entries = fit.slice(0, Number(params.get("limit") ?? "100"));
    const bytes = this.#quarantine.length * 812;
    json(response, 200, { bytes, bytes_max: 2 ** 30, entries, more: entries.length < fit.length });
  }

  #fitting(params: URLSearchParams): QuarantineEntry[] {
    const [destination, reason, id] = ["destination", "reason", "id"].map((key) => params.get(key));
    const ranges = (id ?? "").split(",").map((part) => part.split("-").map(Number));
    const numbered = (n: number) =>
      ranges.some(([first = Number.NaN, last = first]) => n >= first && n <= last);
    return this.#quarantine.filter(
      (one) =>
        (!destination || one.destination === destination) &&
        (!reason || one.reason === reason) &&
        (!id || numbered(one.id)),
    );
  }
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

function events(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
}

function unreadable(error: unknown, response: ServerResponse): void {
  if (!(error instanceof Unreadable)) {
    throw error;
  }
  const { message, column, length, hint } = error;
  json(response, 400, { type: "error", message, column, length, hint });
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) {
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts).toString();
}

/** As `inrush explain --json` prints it. */
function explained(raw: string) {
  const known = raw.includes("%ASA");
  return {
    record: 1,
    format: "rfc3164",
    facility: "local4",
    severity: "warning",
    host: "fw-edge-1",
    app: null,
    message: raw,
    raw,
    event_time: new Date().toISOString(),
    zone: null,
    time_notes: ["none was sent; the receive time stands in"],
    anomalies: [{ name: "no_time", meaning: "No timestamp; the receive time stands in." }],
    class: known ? "cisco_asa" : null,
    why: known ? "recognised by cisco_asa" : "no pack's rule fits",
    considered: [{ rule: "cisco_asa", stage: "cisco", taken: known, reason: null }],
    index: known ? "netfw" : "main",
    sourcetype: known ? "cisco:asa" : "inrush:unknown",
    rule: known ? "cisco_asa" : "source default",
    hec: { time: 1, host: "fw-edge-1", event: raw },
  };
}

/** The number of the event of this moment, for tails. */
export function numberNow(): number {
  return Math.floor(Date.now() / STEP_MS);
}
