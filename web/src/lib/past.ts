// The queries asked before, the latest first, kept by the browser.

/** Where they are kept. A part of `Storage`, so that tests need no browser. */
export interface Shelf {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

const KEY = "inrush.queries";

/** Queries that are remembered. */
export const PAST_MAX = 50;

/** Characters of a query that is remembered. */
const QUERY_CHARS_MAX = 4096;

/** What is remembered; nothing where the browser keeps nothing or something else wrote there. */
export function past(shelf: Shelf | null): string[] {
  try {
    const value: unknown = JSON.parse(shelf?.getItem(KEY) ?? "[]");
    const list = Array.isArray(value) ? value : [];
    return list.filter((one): one is string => typeof one === "string").slice(0, PAST_MAX);
  } catch {
    return [];
  }
}

/** Puts a query first; says what is remembered then. */
export function remember(shelf: Shelf | null, query: string): string[] {
  const text = query.trim();
  const before = past(shelf);
  if (text === "" || text.length > QUERY_CHARS_MAX) {
    return before;
  }
  const list = [text, ...before.filter((one) => one !== text)].slice(0, PAST_MAX);
  try {
    shelf?.setItem(KEY, JSON.stringify(list));
  } catch {
    // A full or forbidden storage: the query is simply not remembered.
  }
  return list;
}

/** Those that contain what was typed, without the very same. */
export function matching(list: readonly string[], typed: string): string[] {
  const wanted = typed.trim().toLowerCase();
  return list.filter((one) => one !== typed.trim() && one.toLowerCase().includes(wanted));
}

/** The browser's storage; null where it is forbidden, which throws on the mere look. */
export function browserShelf(): Shelf | null {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}
