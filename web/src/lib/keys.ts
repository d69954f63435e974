// The keyboard: single keys while nothing is typed into.

import { PAGES, type PageName, routeHash } from "./url";

/** `g` and this letter leads to the page. */
export const PAGE_KEYS: Record<PageName, string> = {
  flow: "f",
  search: "s",
  doors: "d",
  files: "l",
  senders: "n",
  health: "h",
};

/** How long after `g` its second letter may come. */
const CHORD_MS = 1_500;

export interface KeyActions {
  focusQuery: () => void;
  help: () => void;
  theme: () => void;
}

/** Listens until the returned function is called. */
export function listenKeys(actions: KeyActions): () => void {
  let g_ms = Number.NEGATIVE_INFINITY;
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) {
      return;
    }
    const chord = event.timeStamp - g_ms < CHORD_MS;
    g_ms = Number.NEGATIVE_INFINITY;
    const page = chord && PAGES.find((one) => PAGE_KEYS[one] === event.key);
    if (page) {
      location.hash = routeHash(page);
    } else if (event.key === "g") {
      g_ms = event.timeStamp;
      return;
    } else if (event.key === "/") {
      actions.focusQuery();
    } else if (event.key === "?") {
      actions.help();
    } else if (event.key === "t") {
      actions.theme();
    } else if (!(event.key === "j" && step(1)) && !(event.key === "k" && step(-1))) {
      return;
    }
    event.preventDefault();
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Moves the focus to the next or previous row; says whether there are rows. */
function step(by: number): boolean {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)];
  next?.focus();
  return next !== undefined;
}
