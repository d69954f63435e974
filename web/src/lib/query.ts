// What the page has to know of the query language: where to put another term, and which words to
// mark in an event. The server alone decides what a query means.

/** Where the `|` of an aggregation stands; -1 if there is none. */
export function pipeAt(query: string): number {
  let quoted = false;
  for (let i = 0; i < query.length; i += 1) {
    const c = query[i];
    if (c === "\\" && quoted) {
      i += 1;
    } else if (c === '"') {
      quoted = !quoted;
    } else if (c === "|" && !quoted) {
      return i;
    }
  }
  return -1;
}

export function isAggregation(query: string): boolean {
  return pipeAt(query) >= 0;
}

/** A value as it can stand behind `field=`. */
export function quote(value: string): string {
  const plain = /^[\p{L}\p{N}_.:/@+-]+$/u.test(value) && !/^(AND|OR|NOT)$/.test(value);
  return plain ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;
}

/** The query with `field=value` (or its exclusion) added before any `|`. */
export function addTerm(query: string, field: string, value: string, exclude: boolean): string {
  const pipe = pipeAt(query);
  const head = (pipe < 0 ? query : query.slice(0, pipe)).trim();
  const tail = pipe < 0 ? "" : query.slice(pipe).trim();
  const wanted = `${field}=${quote(value)}`;
  const unwanted = `${field}!=${quote(value)}`;
  const [add, opposite] = exclude ? [unwanted, wanted] : [wanted, unwanted];
  const parts = tokens(head);
  if (parts.includes(add)) {
    return query;
  }
  const kept = parts.includes("OR")
    ? `(${head})`
    : parts.filter((part) => part !== opposite).join(" ");
  return [kept, add, tail].filter((part) => part !== "").join(" ");
}

/** Words as they stand between spaces; what is in quotes stays together. */
export function tokens(text: string): string[] {
  return text.match(/(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g) ?? [];
}

/** Words that are marked; more would cost and help nobody. */
const NEEDLES_MAX = 10;

/** The texts that events were looked for by, to be marked in them. */
export function needles(query: string): string[] {
  const pipe = pipeAt(query);
  const found = new Set<string>();
  let negated = false;
  for (const token of tokens(pipe < 0 ? query : query.slice(0, pipe))) {
    const bare = token.replace(/^\(+|\)+$/g, "");
    if (bare === "NOT") {
      negated = true;
      continue;
    }
    const skipped = negated || bare.startsWith("-") || /^(AND|OR)$/.test(bare);
    negated = false;
    if (skipped || /^[^"]*(=|<|>)/.test(bare)) {
      continue;
    }
    for (const part of unquote(bare).split("*")) {
      if (part.length > 1) {
        found.add(part.toLowerCase());
      }
    }
  }
  return [...found].slice(0, NEEDLES_MAX);
}

function unquote(text: string): string {
  return text.startsWith('"')
    ? text.slice(1, text.endsWith('"') && text.length > 1 ? -1 : undefined).replace(/\\(.)/g, "$1")
    : text;
}

/** A piece of text, and whether it is one that was looked for. */
export interface Piece {
  text: string;
  hit: boolean;
}

/** Marks that a text may have. */
const MARKS_MAX = 200;

/** Cuts a text into what was looked for and what was not. */
export function pieces(text: string, wanted: readonly string[]): Piece[] {
  if (wanted.length === 0) {
    return [{ text, hit: false }];
  }
  const escaped = wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const found: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(new RegExp(escaped.join("|"), "giu"))) {
    if (found.length >= 2 * MARKS_MAX) {
      break;
    }
    if (match.index > end) {
      found.push({ text: text.slice(end, match.index), hit: false });
    }
    found.push({ text: match[0], hit: true });
    end = match.index + match[0].length;
  }
  if (end < text.length || found.length === 0) {
    found.push({ text: text.slice(end), hit: false });
  }
  return found;
}

/** A query cut at the place that an error points to. Columns count characters from 1. */
export function pointAt(query: string, column: number, length: number): [string, string, string] {
  const characters = Array.from(query);
  const start = Math.min(Math.max(column - 1, 0), characters.length);
  const end = Math.min(start + Math.max(length, 1), characters.length);
  const part = (from: number, to?: number) => characters.slice(from, to).join("");
  return [part(0, start), part(start, end), part(end)];
}
