// What the address says: the page, and what was asked for. Behind the `#`, so that the server has
// one page and a proxy may put it under any path.

export const PAGES = ["flow", "search", "doors", "files", "senders", "health"] as const;
export type PageName = (typeof PAGES)[number];

export interface Route {
  page: PageName;
  params: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [, name = "", query = ""] = /^#?\/?([^?]*)(?:\?(.*))?$/s.exec(hash) ?? [];
  const page = PAGES.find((one) => one === name) ?? "flow";
  return { page, params: new URLSearchParams(query) };
}

export function routeHash(page: PageName, params?: URLSearchParams): string {
  const query = params?.toString() ?? "";
  return query === "" ? `#/${page}` : `#/${page}?${query}`;
}

/** What a search asks for. */
export interface SearchState {
  q: string;
  /** `15m`, `all`, milliseconds since 1970, or RFC 3339. */
  since: string;
  /** As `since`; empty is now, or the end of all for `all`. */
  until: string;
  tail: boolean;
}

export const SINCE_DEFAULT = "15m";

/** The ranges that have a button. */
export const RANGES = ["15m", "1h", "24h", "7d", "all"] as const;

/** Characters of a query; what is longer comes from no person. */
const QUERY_CHARS_MAX = 8192;

export function searchOf(params: URLSearchParams): SearchState {
  const since = params.get("since") ?? SINCE_DEFAULT;
  const until = params.get("until") ?? "";
  return {
    q: (params.get("q") ?? "").slice(0, QUERY_CHARS_MAX),
    since: since === "all" || isTime(since) ? since : SINCE_DEFAULT,
    until: until === "all" || isTime(until) ? until : "",
    tail: params.get("tail") === "1",
  };
}

/** What is as it would be anyway is left out. */
export function searchParams(state: SearchState): URLSearchParams {
  const params = new URLSearchParams();
  if (state.q !== "") {
    params.set("q", state.q);
  }
  if (state.since !== SINCE_DEFAULT || state.until !== "") {
    params.set("since", state.since);
  }
  if (state.until !== "") {
    params.set("until", state.until);
  }
  if (state.tail) {
    params.set("tail", "1");
  }
  return params;
}

const AGO = /^(\d{1,6})(s|m|h|d|w)$/;

/** Whether it is a time as the API takes it. */
export function isTime(text: string): boolean {
  return AGO.test(text) || msOf(text) !== null;
}

/** The moment that a text names, if it names one by itself rather than as a time before now. */
export function msOf(text: string): number | null {
  if (/^\d{1,15}(\.\d+)?$/.test(text)) {
    return Number(text);
  }
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)) {
    const ms = Date.parse(text);
    return Number.isFinite(ms) ? ms : null;
  }
  return null;
}

const UNIT_MS: Record<string, number> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** How long before now `15m` is; null for what is not such a time. */
export function agoMs(text: string): number | null {
  const [, n, unit] = AGO.exec(text) ?? [];
  return n && unit ? Number(n) * (UNIT_MS[unit] ?? 0) : null;
}

/** For `<input type="datetime-local">`, in the local zone, with seconds. */
export function toLocalInput(ms: number): string {
  const at = new Date(ms);
  const local = new Date(ms - at.getTimezoneOffset() * 60_000);
  return Number.isFinite(local.getTime()) ? local.toISOString().slice(0, 19) : "";
}

/** The reverse; null for a text that is no date. */
export function fromLocalInput(text: string): number | null {
  const ms = Date.parse(text);
  return text !== "" && Number.isFinite(ms) ? ms : null;
}

/** Milliseconds as RFC 3339: the API takes a short number for seconds. */
function exact(time: string): string {
  const at = new Date(Number(time));
  return /^\d/.test(time) && Number.isFinite(at.getTime()) ? at.toISOString() : time;
}

/** The address of a stream or download for this search. */
export function searchUrl(path: string, state: SearchState, more: Record<string, string>): string {
  const params = new URLSearchParams({ q: state.q });
  if (path !== "tail") {
    params.set("since", exact(state.since));
    if (state.until !== "") {
      params.set("until", exact(state.until));
    }
  }
  for (const [name, value] of Object.entries(more)) {
    params.set(name, value);
  }
  return `api/v1/${path}?${params}`;
}
