// Each destination: what it takes, what waits for it and since when, and how long a request takes.

import type { Flow, FlowDestination, FlowStored } from "../lib/contract";
import { count, duration, rate, short, sum } from "../lib/format";
import { destinationKey, type Rates } from "../lib/rates";
import { isWell } from "../lib/river";
import { routeHash } from "../lib/url";
import { EventText } from "../parts/event-text";
import { Spark } from "../parts/spark";

interface Props {
  flow: Flow;
  rates: Rates;
}

export function Destinations({ flow, rates }: Props) {
  return (
    <section class="panel" aria-labelledby="destinations-title">
      <h2 id="destinations-title">Destinations</h2>
      <div class="cards">
        {flow.destinations.map((one) => (
          <DestinationCard key={one.name} one={one} rates={rates} />
        ))}
      </div>
      {flow.destinations.length === 0 && <p class="faint">No destination is configured.</p>}
    </section>
  );
}

function DestinationCard({ one, rates }: { one: FlowDestination; rates: Rates }) {
  const well = isWell(one.state);
  const key = (what: string) => destinationKey(one.name, what);
  const quarantined = sum(one.quarantined);
  const dropped = sum(one.dropped);
  return (
    <article class={`card${well ? "" : " bad"}${one.stored ? " keeps" : ""}`}>
      <header>
        <h3>
          <bdi>{one.name}</bdi> <small class="faint">{one.type}</small>
        </h3>
        <span class={well ? "state good" : "state bad"}>{one.state}</span>
      </header>
      <dl class="measures">
        <Measure
          name="delivered"
          value={`${rate(rates.rate(key("delivered")))}/s`}
          points={rates.series(key("delivered"))}
        />
        <Measure name="pending" value={short(one.pending)} points={rates.series(key("pending"))} />
        <Measure
          name="oldest"
          value={duration(one.oldest_pending_ms)}
          points={rates.series(key("oldest_ms"))}
        />
        <Measure
          name="request"
          value={one.request_ms === null ? "–" : duration(one.request_ms)}
          points={rates.series(key("request_ms"))}
        />
      </dl>
      <p class="card-foot">
        {quarantined + dropped === 0 && (
          <span class="faint">{short(one.delivered)} delivered since the start</span>
        )}
        {quarantined > 0 && (
          <a class="bad-text" href={routeHash("health")} title={reasonsOf(one.quarantined)}>
            {count(quarantined)} quarantined
          </a>
        )}
        {dropped > 0 && (
          <span class="bad-text" title={reasonsOf(one.dropped)}>
            {count(dropped)} dropped
          </span>
        )}
      </p>
      {one.stored && <StoredLine stored={one.stored} />}
      <p class="card-error" title={one.error ?? ""}>
        {one.error && <EventText text={one.error} />}
      </p>
    </article>
  );
}

/** What a store has, and what was taken from it. */
function StoredLine({ stored }: { stored: FlowStored }) {
  const { room = 0, ...others } = stored.expired;
  const old = sum(others);
  return (
    <p class="card-stored">
      <span class="faint">{short(stored.searchable + stored.in_memory)} searchable</span>
      {old > 0 && (
        <span class="faint" title={reasonsOf(others)}>
          {short(old)} deleted by retention
        </span>
      )}
      {room > 0 && <span class="bad-text">{short(room)} deleted for room</span>}
      {stored.unreadable > 0 && (
        <span class="bad-text">{short(stored.unreadable)} in damaged files</span>
      )}
    </p>
  );
}

function reasonsOf(counts: Record<string, number>): string {
  const parts = Object.entries(counts).filter(([, n]) => n > 0);
  return parts.map(([reason, n]) => `${reason}: ${count(n)}`).join("\n");
}

interface MeasureProps {
  name: string;
  value: string;
  points: readonly (number | null)[];
}

function Measure({ name, value, points }: MeasureProps) {
  return (
    <div class="measure">
      <dt>{name}</dt>
      <dd>{value}</dd>
      <Spark points={points} label={`${name}, the last two minutes`} />
    </div>
  );
}
