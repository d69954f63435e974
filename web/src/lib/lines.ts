// Reads line-wise streams: NDJSON and server-sent events, both over fetch, so that the status and
// the words of an error are seen and slow reading slows the server.

/** Characters of a line; a longer one is thrown away up to its end and counted as bad. */
export const LINE_CHARS_MAX = 16 * 1024 * 1024;

/** Cuts text that comes in pieces into lines: LF, CRLF or CR ends one, as in server-sent events. */
export class LineSplitter {
  #rest = "";
  #skipLf = false;
  #tooLong = false;
  readonly #max: number;
  /** Lines that were too long. */
  overlong = 0;

  constructor(max = LINE_CHARS_MAX) {
    this.#max = max;
  }

  /** Characters that wait for the end of their line. */
  get waiting(): number {
    return this.#rest.length;
  }

  /** Hands each line that is complete to `take`. */
  push(text: string, take: (line: string) => void): void {
    let piece = text;
    if (this.#skipLf && piece.length > 0) {
      this.#skipLf = false;
      piece = piece.startsWith("\n") ? piece.slice(1) : piece;
    }
    let start = 0;
    for (let i = nextEnd(piece, 0); i >= 0; i = nextEnd(piece, start)) {
      this.#line(this.#rest + piece.slice(start, i), take);
      this.#rest = "";
      start = i + 1;
      if (piece[i] === "\r") {
        if (start === piece.length) {
          this.#skipLf = true;
        } else if (piece[start] === "\n") {
          start += 1;
        }
      }
    }
    this.#rest += piece.slice(start);
    if (this.#rest.length > this.#max) {
      this.#rest = "";
      this.#tooLong = true;
    }
  }

  /** What stands after the last line end; for NDJSON it is a line. */
  end(take: (line: string) => void): void {
    if (this.#rest !== "" || this.#tooLong) {
      this.#line(this.#rest, take);
    }
    this.#rest = "";
  }

  #line(line: string, take: (line: string) => void): void {
    if (this.#tooLong || line.length > this.#max) {
      this.#tooLong = false;
      this.overlong += 1;
    } else {
      take(line);
    }
  }
}

function nextEnd(text: string, from: number): number {
  const lf = text.indexOf("\n", from);
  const cr = text.indexOf("\r", from);
  return lf < 0 || cr < 0 ? Math.max(lf, cr) : Math.min(lf, cr);
}

/** Hands each object of an NDJSON body to `take`; a line that is no JSON costs that line alone. */
export async function readNdjson(
  body: ReadableStream<Uint8Array>,
  take: (value: unknown) => void,
  bad: () => void,
): Promise<void> {
  const lines = new LineSplitter();
  let overlong = 0;
  const line = (text: string) => {
    if (text.trim() === "") {
      return;
    }
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      bad();
      return;
    }
    take(value);
  };
  await readText(body, (text) => {
    lines.push(text, line);
    for (; overlong < lines.overlong; overlong += 1) {
      bad();
    }
  });
  lines.end(line);
  for (; overlong < lines.overlong; overlong += 1) {
    bad();
  }
}

/** One message of a server-sent event stream. */
export interface ServerEvent {
  event: string;
  data: string;
}

/** The parser of https://html.spec.whatwg.org/#event-stream-interpretation, without ids. */
export class EventParser {
  readonly #lines = new LineSplitter();
  #event = "";
  #data: string[] = [];

  push(text: string, take: (message: ServerEvent) => void): void {
    this.#lines.push(text, (line) => this.#line(line, take));
  }

  #line(line: string, take: (message: ServerEvent) => void): void {
    if (line === "") {
      if (this.#data.length > 0) {
        take({ event: this.#event || "message", data: this.#data.join("\n") });
      }
      this.#event = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") {
      this.#data.push(value);
    } else if (name === "event") {
      this.#event = value;
    }
  }
}

/** Hands the text of a body to `take` as it comes. */
export async function readText(
  body: ReadableStream<Uint8Array>,
  take: (text: string) => void,
): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      take(decoder.decode());
      return;
    }
    take(decoder.decode(value, { stream: true }));
  }
}
