// Events, newest first. They are drawn in chunks that do not change once they are full, and the
// browser skips those that are not seen (content-visibility), so that thousands stay light.

import { Component } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { SearchEvent } from "../lib/contract";
import { msOfNs, severityName } from "../lib/format";
import { EVENTS_MAX } from "../lib/search-run";
import { EventText } from "../parts/event-text";
import { Icon } from "../parts/icon";
import { When } from "../parts/when";
import { EventDetail } from "./search-event-detail";

export interface EventActions {
  /** Asks for `field=value`, or without it. */
  add: (field: string, value: string, exclude: boolean) => void;
  /** Asks for what happened around a moment. */
  around: (ms: number) => void;
}

interface ListProps {
  events: readonly SearchEvent[];
  wanted: readonly string[];
  actions: EventActions;
  more: "no" | "yes" | "loading";
  onMore: () => void;
}

const CHUNK = 50;

/** Characters of an event that its line shows. */
const LINE_CHARS = 600;

export function EventList({ events, wanted, actions, more, onMore }: ListProps) {
  const starts = Array.from({ length: Math.ceil(events.length / CHUNK) }, (_, i) => i * CHUNK);
  return (
    <div class="events">
      {starts.map((start) => (
        <Chunk
          key={start}
          events={events.slice(start, start + CHUNK)}
          wanted={wanted}
          actions={actions}
        />
      ))}
      {more !== "no" && <More loading={more === "loading"} onMore={onMore} />}
      {more === "no" && events.length >= EVENTS_MAX && (
        <p class="faint list-end">
          These are {EVENTS_MAX} events: narrow the query or the time range, or export.
        </p>
      )}
    </div>
  );
}

/** Older events are asked for when their place comes near; the button does it by hand. */
function More({ loading, onMore }: { loading: boolean; onMore: () => void }) {
  const place = useRef<HTMLButtonElement>(null);
  const ask = useRef(onMore);
  ask.current = onMore;
  useEffect(() => {
    if (loading || !place.current) {
      return;
    }
    const observer = new IntersectionObserver(
      (seen) => seen.some((one) => one.isIntersecting) && ask.current(),
      { rootMargin: "400px" },
    );
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [loading]);
  return (
    <button ref={place} type="button" class="button more" disabled={loading} onClick={onMore}>
      {loading ? "Loading older events…" : "Older events"}
    </button>
  );
}

interface ChunkProps {
  events: readonly SearchEvent[];
  wanted: readonly string[];
  actions: EventActions;
}

/** Events that are drawn again only when they are others. */
export class Chunk extends Component<ChunkProps> {
  override shouldComponentUpdate(next: ChunkProps): boolean {
    const { events, wanted } = this.props;
    return (
      next.wanted !== wanted ||
      next.events.length !== events.length ||
      next.events[0] !== events[0] ||
      next.events.at(-1) !== events.at(-1)
    );
  }

  override render() {
    const { events, wanted, actions } = this.props;
    return (
      <>
        {events.map((event) => (
          <EventRow key={event.id} event={event} wanted={wanted} actions={actions} />
        ))}
      </>
    );
  }
}

interface RowProps {
  event: SearchEvent;
  wanted: readonly string[];
  actions: EventActions;
}

function EventRow({ event, wanted, actions }: RowProps) {
  const [open, setOpen] = useState(false);
  const text = event.raw ?? event.message ?? "";
  const ms = msOfNs(event.time_ns);
  const severity = severityName(event.severity);
  return (
    <article class={`event severity-${event.severity ?? "none"}`}>
      <button
        type="button"
        class="event-line"
        data-row
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <Icon name="chevron" />
        <span class="event-time">
          <When ms={ms} ns={event.time_ns} millis />
        </span>
        <span class="event-severity">{severity}</span>
        <span class="event-host">
          <EventText text={event.host ?? ""} wanted={wanted} />
        </span>
        <span class="event-type">
          <EventText text={event.sourcetype ?? ""} />
        </span>
        <span class="event-text">
          <EventText text={text.slice(0, LINE_CHARS)} wanted={wanted} />
        </span>
      </button>
      {open && <EventDetail event={event} wanted={wanted} actions={actions} />}
    </article>
  );
}
