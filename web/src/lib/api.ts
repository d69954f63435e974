// Asks the admin API. Every address is relative, so that the page also works behind a proxy that
// puts it under a path.

import type { QueryError, Session } from "./contract";

/** An answer that is not the one that was hoped for. */
export class ApiError extends Error {
  readonly status: number;
  /** What the server said, where it is a problem of the query. */
  readonly detail: QueryError | null;

  constructor(status: number, message: string, detail: QueryError | null = null) {
    super(message);
    this.status = status;
    this.detail = detail;
  }
}

type Watcher = (session: Session | null, problem: string | null) => void;

let session: Session | null = null;
const watchers = new Set<Watcher>();

/** Calls `watcher` whenever the session is read again; says how to stop. */
export function watchSession(watcher: Watcher): () => void {
  watchers.add(watcher);
  return () => {
    watchers.delete(watcher);
  };
}

/** Reads who we are. Never fails: the watchers are told the problem. */
export async function refreshSession(): Promise<void> {
  let problem: string | null = null;
  try {
    const answer = await fetch("api/v1/session", { cache: "no-store" });
    if (answer.ok) {
      session = (await answer.json()) as Session;
    } else if (answer.status === 404) {
      // A server that knows no sessions asks for none.
      session = { required: false, user: null, csrf: "" };
    } else {
      problem = await wordsOf(answer);
    }
  } catch (error) {
    problem = words(error);
  }
  for (const watcher of watchers) {
    watcher(session, problem);
  }
}

/** Fetches; a 401 lets the session be read again, which shows the login. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (init.method === "POST" && session?.csrf) {
    headers.set("x-inrush-csrf", session.csrf);
  }
  const answer = await fetch(path, { ...init, headers, cache: "no-store" });
  if (answer.ok) {
    return answer;
  }
  if (answer.status === 401 && path !== "api/v1/login") {
    void refreshSession();
  }
  throw await problemOf(answer);
}

/** A GET that answers with JSON. */
export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await ask(path, signal ? { signal } : {});
  return (await answer.json()) as T;
}

/** A POST; its answer as text, which may be empty. */
export async function post(path: string, body?: string, type = "text/plain"): Promise<string> {
  const init: RequestInit = { method: "POST" };
  if (body !== undefined) {
    init.body = body;
    init.headers = { "content-type": type };
  }
  const answer = await ask(path, init);
  return answer.text();
}

async function problemOf(answer: Response): Promise<ApiError> {
  const text = await answer.text().catch(() => "");
  try {
    const body = JSON.parse(text) as { type?: string; message?: string; error?: string };
    if (body.type === "error" && typeof body.message === "string") {
      return new ApiError(answer.status, body.message, body as QueryError);
    }
    if (typeof body.error === "string") {
      return new ApiError(answer.status, body.error);
    }
  } catch {
    // Not JSON: the status has to do.
  }
  return new ApiError(answer.status, `the server answered ${answer.status} ${answer.statusText}`);
}

async function wordsOf(answer: Response): Promise<string> {
  return (await problemOf(answer)).message;
}

/** An error in words for the reader. */
export function words(error: unknown): string {
  if (error instanceof ApiError) {
    return error.message;
  }
  if (error instanceof TypeError) {
    return "the server cannot be reached";
  }
  return error instanceof Error ? error.message : String(error);
}

/** Whether it is our own cancelling. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
