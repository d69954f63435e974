// Live tail: events as they arrive, held still at will.

import { useEffect, useRef, useState } from "preact/hooks";
import { count, plural } from "../lib/format";
import { isAggregation } from "../lib/query";
import { TailRun, type TailView } from "../lib/tail-run";
import type { SearchState } from "../lib/url";
import { FirstEvent } from "../parts/first-event";
import { Icon } from "../parts/icon";
import { ErrorBox } from "./search-bar";
import { Chunk, type EventActions } from "./search-events";

interface Props {
  state: SearchState;
  wanted: readonly string[];
  actions: EventActions;
  onGo: (change: Partial<SearchState>) => void;
}

export function TailPanel({ state, wanted, actions, onGo }: Props) {
  const [view, setView] = useState<TailView | null>(null);
  const run = useRef<TailRun | null>(null);
  const aggregated = isAggregation(state.q);
  useEffect(() => {
    if (aggregated) {
      return;
    }
    const tail = new TailRun(setView);
    run.current = tail;
    tail.start(state);
    return () => tail.stop();
  }, [state, aggregated]);
  if (aggregated) {
    return (
      <section class="panel empty">
        <h2>A live tail shows events, not tables</h2>
        <p class="faint">The query has a `|`: take it away, or search.</p>
        <button type="button" class="button primary" onClick={() => onGo({ tail: false })}>
          Search instead
        </button>
      </section>
    );
  }
  const refused = view?.state.kind === "refused" ? view.state.error : null;
  const paused = view?.paused ?? false;
  return (
    <>
      {refused && (
        <ErrorBox
          error={refused.detail ?? { type: "error", message: refused.message }}
          query={state.q}
        />
      )}
      <div class="status-line tail-line">
        <p class="status" role="status">
          {tailWords(view)}
        </p>
        <div class="status-tools">
          <button
            type="button"
            class="button small tail-pause"
            aria-pressed={paused}
            onClick={() => run.current?.pause(!paused)}
          >
            <Icon name={paused ? "play" : "pause"} /> {paused ? "Go on" : "Pause"}
          </button>
        </div>
      </div>
      <section class="panel found tail" aria-label="Events as they arrive">
        <div class="events">
          <Chunk events={view?.events ?? []} wanted={wanted} actions={actions} />
        </div>
        {view?.state.kind === "open" && view.events.length === 0 && (
          <div class="empty">
            <h2>Waiting for events</h2>
            {state.q === "" ? <FirstEvent /> : <p class="faint">None that matches has come yet.</p>}
          </div>
        )}
      </section>
    </>
  );
}

function tailWords(view: TailView | null): string {
  if (view === null || view.state.kind === "connecting") {
    return "Connecting…";
  }
  if (view.state.kind === "lost") {
    return `Connection lost (${view.state.why}): trying again`;
  }
  if (view.state.kind === "refused") {
    return "Refused";
  }
  const lagged =
    view.lagged > 0 ? ` · ${plural(view.lagged, "event")} left out: they come too fast` : "";
  return view.paused
    ? `Paused · ${count(view.waiting)} new${lagged}`
    : `Live · ${plural(view.received, "event")} since the start${lagged}`;
}
