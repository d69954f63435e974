// Asks for a list again and again while the page is seen.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { getJson, isAbort, words } from "./api";

export interface Polled<T> {
  value: T | null;
  problem: string | null;
  /** Asks at once. */
  again: () => void;
}

/** `every_ms` may depend on what came last. A change of `path` asks at once. */
export function usePoll<T>(path: string, every_ms: (value: T | null) => number): Polled<T> {
  const [value, setValue] = useState<T | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const every = useRef(every_ms);
  every.current = every_ms;

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new turn asks at once
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      clearTimeout(timer);
      if (document.visibilityState === "hidden") {
        return;
      }
      let got: T | null = null;
      try {
        got = await getJson<T>(path, abort.signal);
        setValue(got);
        setProblem(null);
      } catch (error) {
        if (isAbort(error)) {
          return;
        }
        setProblem(words(error));
      }
      timer = setTimeout(() => void ask(), every.current(got));
    };
    const seen = () => void ask();
    document.addEventListener("visibilitychange", seen);
    void ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [path, turn]);

  const again = useCallback(() => setTurn((n) => n + 1), []);
  return { value, problem, again };
}
