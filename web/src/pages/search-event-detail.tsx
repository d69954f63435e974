// One event in full: as it came, and as it was parsed.

import { useState } from "preact/hooks";
import type { SearchEvent } from "../lib/contract";
import { facilityName, msOfNs, severityName } from "../lib/format";
import { CopyButton } from "../parts/copy-button";
import { EventText } from "../parts/event-text";
import { Explain } from "../parts/explain";
import { Icon } from "../parts/icon";
import { When } from "../parts/when";
import type { EventActions } from "./search-events";

interface Props {
  event: SearchEvent;
  wanted: readonly string[];
  actions: EventActions;
}

const COLUMNS = [
  "host",
  "source",
  "sourcetype",
  "index",
  "severity",
  "facility",
  "vendor",
  "product",
  "app",
  "proc_id",
  "msg_id",
  "sender",
  "anomalies",
] as const;

/** Name, value to be shown, and value to be asked for; none where a question makes no sense. */
interface Parsed {
  name: string;
  shown: string;
  asked: string | null;
}

/** A value that is longer is not worth a question. */
const ASKED_CHARS_MAX = 1024;

export function EventDetail({ event, wanted, actions }: Props) {
  const [explained, setExplained] = useState(false);
  const raw = event.raw ?? event.message ?? "";
  const ms = msOfNs(event.time_ns);
  const received = event.received_ns ? msOfNs(event.received_ns) : null;
  return (
    <div class="detail">
      <section class="detail-raw" aria-label="As it came">
        <h3>Raw</h3>
        <pre class="raw">
          <EventText text={raw} wanted={wanted} lines />
        </pre>
        <p class="detail-tools">
          <CopyButton text={raw} label="Copy" />
          <CopyButton text={JSON.stringify(event, null, 2)} label="Copy as JSON" />
          <button type="button" class="button small" onClick={() => setExplained(true)}>
            Explain
          </button>
          <button type="button" class="button small" onClick={() => actions.around(Math.round(ms))}>
            ±1 min
          </button>
        </p>
      </section>
      <section class="detail-parsed" aria-label="As it was parsed">
        <h3>Parsed</h3>
        <dl class="pairs">
          <div>
            <dt>time</dt>
            <dd>
              <When ms={ms} ns={event.time_ns} millis />
            </dd>
          </div>
          {received !== null && (
            <div>
              <dt>received</dt>
              <dd>
                <When ms={received} ns={event.received_ns ?? ""} millis />
              </dd>
            </div>
          )}
          {parsed(event).map((one) => (
            <Pair key={one.name} one={one} wanted={wanted} actions={actions} />
          ))}
        </dl>
      </section>
      {explained && <Explain raw={raw} onClose={() => setExplained(false)} />}
    </div>
  );
}

function parsed(event: SearchEvent): Parsed[] {
  const columns = COLUMNS.flatMap((name) => {
    const value = event[name];
    return value === undefined || value === null ? [] : [column(name, String(value), event)];
  });
  // An object of JSON.parse: a field named __proto__ is a field like any other.
  const fields = Object.entries(event.fields ?? {}).map(([name, value]) =>
    pair(name, String(value)),
  );
  const message =
    event.message === undefined ? [] : [{ ...pair("message", event.message), asked: null }];
  return [...columns, ...fields, ...message];
}

function column(name: string, value: string, event: SearchEvent): Parsed {
  if (name === "severity") {
    return {
      name,
      shown: `${severityName(event.severity)} (${value})`,
      asked: severityName(event.severity),
    };
  }
  if (name === "facility") {
    return {
      name,
      shown: `${facilityName(event.facility)} (${value})`,
      asked: facilityName(event.facility),
    };
  }
  return pair(name, value);
}

function pair(name: string, value: string): Parsed {
  const askable = value.length <= ASKED_CHARS_MAX && /^[\w.:@-]+$/.test(name);
  return { name, shown: value, asked: askable ? value : null };
}

function Pair({
  one,
  wanted,
  actions,
}: {
  one: Parsed;
  wanted: readonly string[];
  actions: EventActions;
}) {
  const { name, shown, asked } = one;
  return (
    <div>
      <dt>
        <EventText text={name} />
      </dt>
      <dd>
        <span class="pair-value">
          <EventText text={shown} wanted={wanted} lines />
        </span>
        {asked !== null && (
          <span class="pair-tools">
            <button
              type="button"
              class="icon-button small"
              aria-label={`Search for this ${name}`}
              title="Search for it"
              onClick={() => actions.add(name, asked, false)}
            >
              <Icon name="plus" />
            </button>
            <button
              type="button"
              class="icon-button small"
              aria-label={`Exclude this ${name}`}
              title="Exclude it"
              onClick={() => actions.add(name, asked, true)}
            >
              <Icon name="minus" />
            </button>
          </span>
        )}
      </dd>
    </div>
  );
}
