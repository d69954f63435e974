// The time range: a few usual ones, or two moments.

import { useId, useState } from "preact/hooks";
import { clock, day, duration } from "../lib/format";
import { agoMs, fromLocalInput, msOf, RANGES, type SearchState, toLocalInput } from "../lib/url";

interface Props {
  state: SearchState;
  onGo: (change: Partial<SearchState>) => void;
}

export function RangePicker({ state, onGo }: Props) {
  const [open, setOpen] = useState(false);
  const usual = state.until === "" && RANGES.some((one) => one === state.since);
  return (
    <fieldset class="range">
      <legend class="off-screen">Time range</legend>
      {RANGES.map((range) => (
        <button
          key={range}
          type="button"
          aria-pressed={usual && range === state.since}
          onClick={() => {
            setOpen(false);
            onGo({ since: range, until: "" });
          }}
        >
          {range}
        </button>
      ))}
      <button
        type="button"
        class="range-custom"
        aria-pressed={!usual}
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {usual ? "custom" : rangeWords(state)}
      </button>
      {open && (
        <Custom
          state={state}
          onGo={(change) => {
            setOpen(false);
            onGo(change);
          }}
          onClose={() => setOpen(false)}
        />
      )}
    </fieldset>
  );
}

/** `10:00:00 – 10:30:00`, with the day where it is not today. */
function rangeWords(state: SearchState): string {
  const [from, to] = [msOf(state.since), msOf(state.until)];
  if (from === null) {
    return state.until === "" ? `last ${state.since}` : `${state.since} before`;
  }
  const now = Date.now();
  const sameDay = day(from) === day(to ?? now);
  const start = day(from) === day(now) ? clock(from) : `${day(from)} ${clock(from)}`;
  if (to === null) {
    return `since ${start}`;
  }
  return `${start} – ${sameDay ? clock(to) : `${day(to)} ${clock(to)}`}`;
}

interface CustomProps extends Props {
  onClose: () => void;
}

function Custom({ state, onGo, onClose }: CustomProps) {
  const id = useId();
  const now = Date.now();
  const start = msOf(state.since) ?? now - (agoMs(state.since) ?? 3_600_000);
  const end = msOf(state.until) ?? now;
  const [from, setFrom] = useState(toLocalInput(start));
  const [to, setTo] = useState(toLocalInput(end));
  const [from_ms, to_ms] = [fromLocalInput(from), fromLocalInput(to)];
  const span = from_ms !== null && to_ms !== null ? to_ms - from_ms : null;
  const apply = () => {
    if (span !== null && span > 0) {
      onGo({ since: String(from_ms), until: String(to_ms) });
    }
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Esc closes what it is in
    <div
      class="range-panel"
      onKeyDown={(event) => {
        if (event.key === "Escape") {
          event.stopPropagation();
          onClose();
        } else if (event.key === "Enter") {
          event.preventDefault();
          apply();
        }
      }}
    >
      <label for={`${id}-from`}>from</label>
      <input
        id={`${id}-from`}
        type="datetime-local"
        step="1"
        value={from}
        onInput={(event) => setFrom(event.currentTarget.value)}
      />
      <label for={`${id}-to`}>to</label>
      <input
        id={`${id}-to`}
        type="datetime-local"
        step="1"
        value={to}
        onInput={(event) => setTo(event.currentTarget.value)}
      />
      <span class="faint">
        {span === null
          ? "both are needed"
          : span > 0
            ? duration(span)
            : "the end is not after the start"}
      </span>
      <button
        type="button"
        class="button primary"
        disabled={span === null || span <= 0}
        onClick={apply}
      >
        Apply
      </button>
    </div>
  );
}
