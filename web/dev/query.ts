// The query language in small, for the stand-in server: enough that the page can be tried with
// any query of its help. The real one is the server's.

import type { Cell, Column, SearchEvent } from "../src/lib/contract";

export class Unreadable extends Error {
  readonly column: number;
  readonly length: number;
  readonly hint: string;

  constructor(message: string, column: number, length: number, hint = "") {
    super(message);
    this.column = column;
    this.length = length;
    this.hint = hint;
  }
}

export type Test = (event: SearchEvent) => boolean;

export interface Query {
  test: Test;
  aggregation: Aggregation | null;
}

export interface Aggregation {
  measures: { name: string; column: string; field: string }[];
  by: string[];
  bucket_ms: number | null;
  sort: { column: string; down: boolean } | null;
  head: number;
}

interface Token {
  text: string;
  quoted: boolean;
  column: number;
}

const SEVERITIES = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

export function parseQuery(text: string): Query {
  const tokens = tokenise(text);
  const pipe = tokens.findIndex((one) => one.text === "|" && !one.quoted);
  const head = pipe < 0 ? tokens : tokens.slice(0, pipe);
  const parser = new Parser(head, text.length + 1);
  const test = parser.all();
  return { test, aggregation: pipe < 0 ? null : aggregationOf(tokens.slice(pipe + 1)) };
}

function tokenise(text: string): Token[] {
  const tokens: Token[] = [];
  const word =
    /\s*(?:(\(|\)|\||,)|(-?)"((?:\\.|[^"\\])*)("?)|((?:[^\s"()|,]|"(?:\\.|[^"\\])*")+))/gy;
  while (word.lastIndex < text.trimEnd().length) {
    const match = word.exec(text);
    if (!match) {
      break;
    }
    const column = match.index + (/^\s*/.exec(match[0])?.[0].length ?? 0) + 1;
    const [, mark, minus, quoted, closed, bare] = match;
    if (quoted !== undefined && closed === "") {
      throw new Unreadable("this quote is not closed", column, 1, 'close it with another "');
    }
    if (quoted !== undefined && minus) {
      tokens.push({ text: "NOT", quoted: false, column });
    }
    const plain = quoted?.replace(/\\(.)/g, "$1") ?? bare ?? mark ?? "";
    tokens.push({ text: plain, quoted: quoted !== undefined, column });
  }
  return tokens;
}

class Parser {
  #at = 0;
  readonly #tokens: Token[];
  readonly #end: number;

  constructor(tokens: Token[], end: number) {
    this.#tokens = tokens;
    this.#end = end;
  }

  all(): Test {
    const test = this.#or();
    const rest = this.#tokens[this.#at];
    if (rest) {
      throw new Unreadable(`unexpected \`${rest.text}\``, rest.column, rest.text.length);
    }
    return test;
  }

  #or(): Test {
    const parts = [this.#and()];
    while (this.#is("OR")) {
      this.#at += 1;
      parts.push(this.#and());
    }
    return (event) => parts.some((part) => part(event));
  }

  #and(): Test {
    const parts: Test[] = [];
    for (;;) {
      const token = this.#tokens[this.#at];
      if (!token || this.#is("OR") || this.#is(")")) {
        return (event) => parts.every((part) => part(event));
      }
      this.#at += 1;
      if (token.quoted || token.text !== "AND") {
        parts.push(this.#term(token));
      }
    }
  }

  #is(text: string): boolean {
    const token = this.#tokens[this.#at];
    return token !== undefined && !token.quoted && token.text === text;
  }

  #term(token: Token): Test {
    if (token.quoted) {
      return contains(token.text);
    }
    if (token.text === "NOT") {
      const next = this.#tokens[this.#at];
      if (!next) {
        throw new Unreadable("NOT what?", token.column, 3, "a term has to follow");
      }
      this.#at += 1;
      const test = this.#term(next);
      return (event) => !test(event);
    }
    if (token.text === "(") {
      const test = this.#or();
      this.#close(token);
      return test;
    }
    const [, field, operator, value] = /^([\w.:@-]+?)(!=|<=|>=|=|<|>)(.*)$/s.exec(token.text) ?? [];
    if (field && operator && value !== undefined) {
      return this.#field(field, operator, value, token);
    }
    if (token.text.startsWith("-") && token.text.length > 1) {
      const test = contains(token.text.slice(1));
      return (event) => !test(event);
    }
    return contains(token.text);
  }

  #close(open: Token): void {
    if (!this.#is(")")) {
      throw new Unreadable("this parenthesis is not closed", open.column, 1, "close it with )");
    }
    this.#at += 1;
  }

  #field(name: string, operator: string, value: string, token: Token): Test {
    const next = this.#tokens[this.#at];
    if (value === "" && next && !next.quoted && next.text === "(") {
      this.#at += 1;
      const values: string[] = [];
      while (this.#tokens[this.#at] && !this.#is(")")) {
        const one = this.#tokens[this.#at];
        if (one && (one.quoted || one.text !== "OR")) {
          values.push(one.text);
        }
        this.#at += 1;
      }
      this.#close(next);
      const tests = values.map((one) => compareField(name, operator, one));
      return (event) => tests.some((test) => test(event));
    }
    if (value === "") {
      const column = Math.min(token.column + token.text.length, this.#end);
      throw new Unreadable(
        `${name} is compared with nothing`,
        column,
        1,
        `write ${name}=* for any value`,
      );
    }
    const [, quoted] = /^"((?:\\.|[^"\\])*)"$/s.exec(value) ?? [];
    return compareField(name, operator, quoted?.replace(/\\(.)/g, "$1") ?? value);
  }
}

export function fieldOf(event: SearchEvent, name: string): string | undefined {
  const own = (event as unknown as Record<string, unknown>)[name];
  const value = name === "fields" || own === undefined ? event.fields?.[name] : own;
  return value === undefined ? undefined : String(value);
}

function compareField(name: string, operator: string, wanted: string): Test {
  const named = name === "severity" ? SEVERITIES.indexOf(wanted.toLowerCase()) : -1;
  const number = named >= 0 ? named : Number(wanted);
  const pattern = wildcard(wanted);
  return (event) => {
    const value = fieldOf(event, name);
    if (value === undefined) {
      return false;
    }
    switch (operator) {
      case "=":
        return named >= 0 ? Number(value) === named : pattern.test(value);
      case "!=":
        return named >= 0 ? Number(value) !== named : !pattern.test(value);
      case "<":
        return Number(value) < number;
      case "<=":
        return Number(value) <= number;
      case ">":
        return Number(value) > number;
      default:
        return Number(value) >= number;
    }
  };
}

function wildcard(text: string): RegExp {
  const escaped = text
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replace(/\*/g, ".*")
    .replace(/\?/g, ".");
  return new RegExp(`^${escaped}$`, "is");
}

function contains(text: string): Test {
  if (!text.includes("*")) {
    const wanted = text.toLowerCase();
    return (event) => (event.raw ?? "").toLowerCase().includes(wanted);
  }
  const pattern = new RegExp(wildcard(text).source.slice(1, -1), "is");
  return (event) => pattern.test(event.raw ?? "");
}

const UNIT_MS: Record<string, number> = { s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7 };

function aggregationOf(tokens: Token[]): Aggregation {
  const made: Aggregation = { measures: [], by: [], bucket_ms: null, sort: null, head: 10_000 };
  let i = 0;
  const text = () => tokens[i]?.text ?? "";
  while (i < tokens.length) {
    const word = text();
    i += 1;
    if (word === "|" || word === ",") {
      continue;
    }
    if (word === "by") {
      for (; i < tokens.length && text() !== "|"; i += 1) {
        const [, n, unit] = /^(\d+)([smhd])$/.exec(text()) ?? [];
        if (n && unit) {
          made.bucket_ms = Number(n) * (UNIT_MS[unit] ?? 0);
        } else if (text() !== ",") {
          made.by.push(text());
        }
      }
    } else if (word === "top") {
      made.head = Number(text());
      i += 1;
      made.by.push(text());
      i += 1;
      made.measures.push({ name: "count", column: "count", field: "" });
      made.sort = { column: "count", down: true };
    } else if (word === "sort") {
      made.sort = { column: text().replace(/^-/, ""), down: text().startsWith("-") };
      i += 1;
    } else if (word === "head") {
      made.head = Number(text());
      i += 1;
    } else if (/^(count|sum|avg|min|max|p50|p99)$/.test(word)) {
      const field = text() === "(" ? (tokens[i + 1]?.text ?? "") : "";
      i += field ? 3 : 0;
      made.measures.push({ name: word, column: field ? `${word}(${field})` : word, field });
    } else {
      const column = tokens[i - 1]?.column ?? 1;
      throw new Unreadable(
        `\`${word}\` is no command`,
        column,
        word.length,
        "count, sum, avg, min, max, p50, p99, top, sort, head",
      );
    }
  }
  return made;
}

/** Rows as they are counted. */
export class Counter {
  readonly #how: Aggregation;
  readonly #groups = new Map<string, { keys: Cell[]; values: number[][] }>();

  constructor(how: Aggregation) {
    this.#how = how;
  }

  add(event: SearchEvent, at_ms: number): void {
    const { by, bucket_ms, measures } = this.#how;
    const keys: Cell[] = by.map((name) => fieldOf(event, name) ?? null);
    if (bucket_ms !== null) {
      keys.unshift(Math.floor(at_ms / bucket_ms) * bucket_ms);
    }
    const key = JSON.stringify(keys);
    const group = this.#groups.get(key) ?? { keys, values: measures.map(() => []) };
    measures.forEach((measure, i) => {
      const value = measure.field === "" ? 1 : Number(fieldOf(event, measure.field));
      if (Number.isFinite(value)) {
        group.values[i]?.push(value);
      }
    });
    this.#groups.set(key, group);
  }

  table(): { columns: Column[]; rows: Cell[][] } {
    const { by, bucket_ms, measures, sort, head } = this.#how;
    const columns: Column[] = [
      ...(bucket_ms === null ? [] : [{ name: "time", kind: "time" as const }]),
      ...by.map((name) => ({ name, kind: "text" as const })),
      ...measures.map(({ column }) => ({ name: column, kind: "number" as const })),
    ];
    const rows = [...this.#groups.values()].map(({ keys, values }) => [
      ...keys,
      ...measures.map(({ name }, i) => measured(name, values[i] ?? [])),
    ]);
    const at = columns.findIndex((column) => column.name === sort?.column);
    if (at >= 0) {
      rows.sort((a, b) => (Number(a[at]) - Number(b[at])) * (sort?.down ? -1 : 1));
    }
    return { columns, rows: rows.slice(0, head) };
  }
}

function measured(name: string, values: number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  const sum = values.reduce((a, b) => a + b, 0);
  switch (name) {
    case "count":
      return values.length;
    case "sum":
      return sum;
    case "avg":
      return values.length > 0 ? sum / values.length : null;
    case "min":
      return sorted[0] ?? null;
    case "max":
      return sorted.at(-1) ?? null;
    default:
      return sorted[Math.floor((sorted.length - 1) * (name === "p99" ? 0.99 : 0.5))] ?? null;
  }
}
