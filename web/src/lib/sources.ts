// What the rows of sources have in common.

import type { Flow } from "./contract";

/** Whether parts of events wait at any source for the others. */
export function holdsAny(flow: Flow): boolean {
  return flow.sources.some((one) => (one.held ?? 0) > 0);
}
