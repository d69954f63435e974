// What the rows of sources have in common.

import type { Flow } from "./contract";

/** Whether any source reads files, so that there is something to show of them. */
export function readsFiles(flow: Flow | null): boolean {
  return flow?.sources.some((one) => one.type === "file") ?? false;
}

/** Whether parts of events wait at any source for the others. */
export function holdsAny(flow: Flow): boolean {
  return flow.sources.some((one) => (one.held ?? 0) > 0);
}
