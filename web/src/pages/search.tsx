// Search: a query, when things happened, and the events or the table that it gives.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { copyText } from "../lib/copy";
import { addTerm, isAggregation, needles } from "../lib/query";
import { emptyView, SearchRun, type SearchView } from "../lib/search-run";
import { routeHash, type SearchState, searchOf, searchParams } from "../lib/url";
import { notify } from "../parts/notice";
import { ErrorBox, SearchBar } from "./search-bar";
import { type EventActions, EventList } from "./search-events";
import { FieldPanel } from "./search-fields";
import { HistogramPanel } from "./search-histogram";
import { NoEvents, StatusLine } from "./search-status";
import { AggregationTable } from "./search-table";
import { TailPanel } from "./search-tail";

export function SearchPage({ params }: { params: URLSearchParams }) {
  const address = params.toString();
  const state = useMemo(() => searchOf(new URLSearchParams(address)), [address]);
  const [view, setView] = useState<SearchView>(emptyView);
  const [turn, setTurn] = useState(0);
  const run = useRef<SearchRun | null>(null);
  run.current ??= new SearchRun(setView);
  const now = useRef(state);
  now.current = state;

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new turn asks the same once more
  useEffect(() => {
    if (state.tail) {
      run.current?.cancel();
    } else {
      void run.current?.start(state);
    }
  }, [state, turn]);
  useEffect(
    () => () => {
      run.current?.dispose();
      run.current = null;
    },
    [],
  );

  const go = useCallback((change: Partial<SearchState>) => {
    const next = { ...now.current, ...change };
    const hash = routeHash("search", searchParams(next));
    if (hash === routeHash("search", searchParams(now.current))) {
      setTurn((n) => n + 1);
    } else {
      location.hash = hash;
    }
  }, []);

  const actions = useMemo<EventActions>(
    () => ({
      add: (field, value, exclude) => go({ q: addTerm(now.current.q, field, value, exclude) }),
      around: (ms) => go({ since: String(ms - 60_000), until: String(ms + 60_000), tail: false }),
    }),
    [go],
  );
  const wanted = useMemo(() => needles(state.q), [state.q]);

  return (
    <div class="search">
      <h1 class="off-screen">Search</h1>
      <SearchBar
        state={state}
        running={view.phase === "running"}
        onGo={go}
        onCancel={() => run.current?.cancel()}
      />
      {state.tail ? (
        <TailPanel state={state} wanted={wanted} actions={actions} onGo={go} />
      ) : (
        <Results
          state={state}
          view={view}
          wanted={wanted}
          actions={actions}
          onGo={go}
          onMore={() => void run.current?.loadMore()}
          onShare={() => void share(state, view)}
        />
      )}
    </div>
  );
}

/** The address with the times fixed, so that the one who gets it sees the same. */
async function share(state: SearchState, view: SearchView): Promise<void> {
  const { plan } = view;
  const fixed =
    plan && state.since !== "all"
      ? { since: String(Math.floor(plan.from_ms)), until: String(Math.ceil(plan.to_ms)) }
      : {};
  const hash = routeHash("search", searchParams({ ...state, ...fixed, tail: false }));
  const link = `${location.origin}${location.pathname}${hash}`;
  if (await copyText(link)) {
    notify("Link copied, with the times fixed");
  } else {
    location.hash = hash;
    notify("The browser does not let this page copy: the link is in the address bar", true);
  }
}

interface ResultsProps {
  state: SearchState;
  view: SearchView;
  wanted: readonly string[];
  actions: EventActions;
  onGo: (change: Partial<SearchState>) => void;
  onMore: () => void;
  onShare: () => void;
}

function Results({ state, view, wanted, actions, onGo, onMore, onShare }: ResultsProps) {
  // What is only sorted is a list of events.
  const aggregated = view.columns !== null || (isAggregation(state.q) && view.events.length === 0);
  const nothing =
    view.phase === "done" &&
    view.columns === null &&
    view.events.length === 0 &&
    view.error === null;
  if (view.error && view.events.length === 0 && view.rows.length === 0) {
    return <ErrorBox error={view.error} query={state.q} />;
  }
  return (
    <>
      {view.error && <ErrorBox error={view.error} query={state.q} />}
      <HistogramPanel view={view} onGo={onGo} />
      <StatusLine state={state} view={view} onShare={onShare} />
      <div class={aggregated ? "results wide" : "results"}>
        {!aggregated && <FieldPanel fields={view.fields} actions={actions} />}
        <section class="panel found" aria-label="Results" aria-busy={view.phase === "running"}>
          {aggregated && !nothing ? (
            <AggregationTable view={view} />
          ) : (
            <EventList
              events={view.events}
              wanted={wanted}
              actions={actions}
              more={view.more}
              onMore={onMore}
            />
          )}
          {nothing && <NoEvents state={state} hints={view.plan?.hints ?? []} onGo={onGo} />}
        </section>
      </div>
    </>
  );
}
