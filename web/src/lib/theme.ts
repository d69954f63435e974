// Dark or light: as the system says, or as was chosen here.

import { useLayoutEffect, useState } from "preact/hooks";
import { browserShelf } from "./past";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "inrush.theme";
const changed = new Set<() => void>();

function chosen(): Theme {
  try {
    const kept = browserShelf()?.getItem(KEY);
    return THEMES.find((one) => one === kept) ?? "system";
  } catch {
    return "system";
  }
}

/** Dresses the page; called before anything is painted, so that nothing flashes. */
export function applyTheme(theme: Theme = chosen()): void {
  if (theme === "system") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
}

export function setTheme(theme: Theme): void {
  try {
    browserShelf()?.setItem(KEY, theme);
  } catch {
    // Not kept: it holds until the page is left.
  }
  applyTheme(theme);
  for (const one of changed) {
    one();
  }
}

/** The next one in turn. */
export function nextTheme(theme: Theme): Theme {
  return THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
}

/** What was chosen, and a number that changes whenever colours do. */
export function useTheme(): { theme: Theme; version: number } {
  const [state, setState] = useState(() => ({ theme: chosen(), version: 0 }));
  // Before the paint, so that no change falls between the first drawing and the listener.
  useLayoutEffect(() => {
    const update = () =>
      setState((old) => ({
        theme: (document.documentElement.dataset.theme as Theme | undefined) ?? "system",
        version: old.version + 1,
      }));
    const system = matchMedia("(prefers-color-scheme: dark)");
    changed.add(update);
    system.addEventListener("change", update);
    return () => {
      changed.delete(update);
      system.removeEventListener("change", update);
    };
  }, []);
  return state;
}

/** A colour of the style sheet as a canvas takes it. */
export function ink(near: Element, variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  near.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
