// The query bar: the query with its past, the time range, and an error that points at its place.

import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { QueryError } from "../lib/contract";
import { browserShelf, matching, past, remember } from "../lib/past";
import { pointAt } from "../lib/query";
import type { SearchState } from "../lib/url";
import { Icon } from "../parts/icon";
import { RangePicker } from "./search-range";

interface Props {
  state: SearchState;
  running: boolean;
  onGo: (change: Partial<SearchState>) => void;
  onCancel: () => void;
}

export function SearchBar({ state, running, onGo, onCancel }: Props) {
  const [draft, setDraft] = useState(state.q);
  // In the same moment as it is drawn: a later one would take away what was typed meanwhile.
  useLayoutEffect(() => setDraft(state.q), [state.q]);
  const submit = (query: string) => {
    remember(browserShelf(), query);
    setDraft(query);
    onGo({ q: query.trim() });
  };
  return (
    <search class="bar">
      <form
        class="bar-query"
        onSubmit={(event) => {
          event.preventDefault();
          submit(draft);
        }}
      >
        <QueryInput draft={draft} onDraft={setDraft} onSubmit={submit} />
        {running ? (
          // A key each: one button that became the other within its own click would submit.
          <button key="cancel" type="button" class="button" onClick={onCancel}>
            Cancel
          </button>
        ) : (
          <button key="search" type="submit" class="button primary">
            Search
          </button>
        )}
      </form>
      <div class="bar-range">
        <RangePicker state={state} onGo={onGo} />
        <button
          type="button"
          class="button tail-switch"
          aria-pressed={state.tail}
          onClick={() => onGo({ tail: !state.tail, q: draft.trim() })}
        >
          <Icon name="play" /> Live tail
        </button>
      </div>
    </search>
  );
}

interface InputProps {
  draft: string;
  onDraft: (draft: string) => void;
  onSubmit: (query: string) => void;
}

/** A combobox over the past queries. */
function QueryInput({ draft, onDraft, onSubmit }: InputProps) {
  const [list, setList] = useState<string[] | null>(null);
  const [at, setAt] = useState(-1);
  const box = useRef<HTMLInputElement>(null);
  const listId = useId();
  const open = (filter: string) => {
    setAt(-1);
    setList(matching(past(browserShelf()), filter).slice(0, 12));
  };
  const close = () => {
    setList(null);
    setAt(-1);
  };
  const choose = (query: string) => {
    close();
    onSubmit(query);
  };
  const move = (by: number) => {
    if (list === null) {
      open("");
    } else if (list.length > 0) {
      setAt((at + by + list.length) % list.length);
    }
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.isComposing) {
      choose((at >= 0 && list?.[at]) || draft);
    } else if (event.key === "ArrowDown") {
      move(1);
    } else if (event.key === "ArrowUp" && list !== null) {
      move(at < 0 ? 0 : -1);
    } else if (event.key === "Escape" && list !== null) {
      close();
    } else if (event.key === "Escape") {
      box.current?.blur();
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <div class="query-box">
      <input
        ref={box}
        id="query"
        type="text"
        value={draft}
        placeholder={'host=fw* "access denied" -keepalive | count by host'}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        role="combobox"
        aria-label="Query"
        aria-autocomplete="list"
        aria-expanded={list !== null}
        aria-controls={listId}
        aria-activedescendant={at >= 0 ? `${listId}-${at}` : undefined}
        aria-keyshortcuts="/"
        onInput={(event) => {
          onDraft(event.currentTarget.value);
          if (list !== null) {
            open(event.currentTarget.value);
          }
        }}
        onKeyDown={onKey}
        onBlur={close}
      />
      <button
        type="button"
        class="icon-button"
        aria-label="Earlier queries (arrow down)"
        title="Earlier queries (arrow down)"
        onMouseDown={(event) => event.preventDefault()}
        onClick={() => {
          box.current?.focus();
          list === null ? open("") : close();
        }}
      >
        <Icon name="clock" />
      </button>
      <Past id={listId} list={list} at={at} onChoose={choose} />
    </div>
  );
}

interface PastProps {
  id: string;
  list: string[] | null;
  at: number;
  onChoose: (query: string) => void;
}

function Past({ id, list, at, onChoose }: PastProps) {
  return (
    <div id={id} class="past" role="listbox" aria-label="Earlier queries" hidden={list === null}>
      {list?.length === 0 && <p class="faint">No earlier query.</p>}
      {list?.map((query, i) => (
        // The keys are taken by the input, which keeps the focus.
        // biome-ignore lint/a11y/useKeyWithClickEvents: see above
        // biome-ignore lint/a11y/useFocusableInteractive: see above
        <div
          key={query}
          id={`${id}-${i}`}
          class="past-query"
          role="option"
          aria-selected={i === at}
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(query)}
        >
          {query}
        </div>
      ))}
    </div>
  );
}

/** The error in words, and the query with its place marked. */
export function ErrorBox({ error, query }: { error: QueryError; query: string }) {
  const pointed = error.column !== undefined;
  const [before, place, after] = pointAt(query, error.column ?? 1, error.length ?? 1);
  return (
    <section class="panel query-error" role="alert">
      <p>
        {pointed && <b>Column {error.column}: </b>}
        {error.message}
      </p>
      {pointed && (
        <pre>
          {before}
          <mark class={place === "" ? "caret" : ""}>{place || " "}</mark>
          {after}
        </pre>
      )}
      {error.hint && <p class="hint-do">{error.hint}</p>}
    </section>
  );
}
