// What flows, what lags and what is lost, once a second.

import { useRef } from "preact/hooks";
import type { Flow } from "../lib/contract";
import { bytes, count, duration, percent, rate, short, sum } from "../lib/format";
import { useLive } from "../lib/live";
import { edgeKey, type Rates, sourceKey } from "../lib/rates";
import { holdsAny } from "../lib/sources";
import { FirstEvent } from "../parts/first-event";
import { Spark } from "../parts/spark";
import { WhenSeen } from "../parts/when-seen";
import { Destinations } from "./flow-destinations";
import { LossMap } from "./flow-loss";
import { RiverView } from "./flow-river";

export function FlowPage() {
  const { flow, rates, state } = useLive();
  if (!flow) {
    return (
      <div class="flow" aria-busy="true">
        <h1 class="off-screen">Flow</h1>
        <section class="tiles" aria-label="Totals">
          {["in", "out", "pending", "oldest pending", "lost", "queue"].map((name) => (
            <div class="tile" key={name}>
              <span class="tile-name">{name}</span>
              <span class="tile-value">–</span>
            </div>
          ))}
        </section>
        <section key="river" class="panel river-panel">
          <p class="faint">
            {state.kind === "lost" ? `No answer: ${state.why}` : "Waiting for the first numbers…"}
          </p>
        </section>
      </div>
    );
  }
  return (
    <div class={state.kind === "open" ? "flow" : "flow stale"}>
      <h1 class="off-screen">Flow</h1>
      <Tiles flow={flow} rates={rates} />
      <section key="river" class="panel river-panel" aria-labelledby="river-title">
        <h2 id="river-title">
          River <small>events a second</small>
        </h2>
        <RiverView flow={flow} rates={rates} />
        {received(flow) === 0 && <FirstEvent />}
      </section>
      <LossMap flow={flow} rates={rates} />
      <WhenSeen>
        <Destinations flow={flow} rates={rates} />
      </WhenSeen>
      <div class="two">
        <WhenSeen class="stack">
          <Sources flow={flow} rates={rates} />
          <QueuePanel flow={flow} rates={rates} />
          <Threads flow={flow} />
        </WhenSeen>
        <WhenSeen>
          <Routes flow={flow} rates={rates} />
        </WhenSeen>
      </div>
      <p class="foot faint">
        Inrush {flow.version}, running for {duration(flow.at_ms - flow.started_ms)}
      </p>
    </div>
  );
}

function received(flow: Flow): number {
  return flow.sources.reduce((all, one) => all + one.received, 0);
}

/** Events that are gone for good or lie aside. What rules take out is meant to go. */
function lost(flow: Flow): number {
  const inside = flow.sources.reduce((n, one) => n + one.kernel_dropped + sum(one.rejected), 0);
  return flow.destinations.reduce((n, one) => n + sum(one.dropped) + sum(one.quarantined), inside);
}

interface Parts {
  flow: Flow;
  rates: Rates;
}

function Tiles({ flow, rates }: Parts) {
  const { queue } = flow;
  const pending = Math.max(0, ...flow.destinations.map((one) => one.pending));
  const oldest = Math.max(0, ...flow.destinations.map((one) => one.oldest_pending_ms));
  const gone = lost(flow);
  const full = queue.full_in_s;
  return (
    <section class="tiles" aria-label="Totals">
      <Tile name="in" value={rate(rates.rate("in"))} unit="/s" series={rates.series("in")} />
      <Tile name="out" value={rate(rates.rate("out"))} unit="/s" series={rates.series("out")} />
      <Tile name="pending" value={short(pending)} series={rates.series("pending")} />
      <Tile name="oldest pending" value={duration(oldest)} series={rates.series("oldest_ms")} />
      <div class={gone > 0 ? "tile bad" : "tile"}>
        <span class="tile-name">lost or set aside</span>
        <span class="tile-value">{short(gone)}</span>
        <span class="tile-note">{gone > 0 ? "see the loss map" : "since the start"}</span>
      </div>
      <div class={full !== null || queue.stall ? "tile warm" : "tile"}>
        <span class="tile-name">queue</span>
        <span class="tile-value">{percent(queue.disk_bytes, queue.disk_bytes_max)}</span>
        <span class="tile-note">
          {full === null ? "not filling" : `full in ${duration(full * 1000)}`}
        </span>
      </div>
    </section>
  );
}

interface TileProps {
  name: string;
  value: string;
  unit?: string;
  series: readonly (number | null)[];
}

function Tile({ name, value, unit = "", series }: TileProps) {
  return (
    <div class="tile">
      <span class="tile-name">{name}</span>
      <span class="tile-value">
        {value}
        {unit && <small> {unit}</small>}
      </span>
      <Spark points={series} label={`${name}, the last two minutes`} />
    </div>
  );
}

function Sources({ flow, rates }: Parts) {
  // Most sources never hold any, and a column that comes and goes would move the others.
  const held = useRef(false);
  held.current ||= holdsAny(flow);
  return (
    <section class="panel" aria-labelledby="sources-title">
      <h2 id="sources-title">Sources</h2>
      <div class="scroll-x">
        <table class="grid even">
          <thead>
            <tr>
              <th scope="col">name</th>
              <th scope="col" class="num">
                events/s
              </th>
              <th scope="col" class="num">
                bytes/s
              </th>
              <th scope="col" class="num">
                connections
              </th>
              <th scope="col" class="num">
                received
              </th>
              {held.current && (
                <th scope="col" class="num" title="parts of events that wait for the others">
                  held
                </th>
              )}
              <th scope="col" class="num">
                lost
              </th>
            </tr>
          </thead>
          <tbody>
            {flow.sources.map((one) => {
              const gone = one.kernel_dropped + sum(one.rejected);
              return (
                <tr key={one.name}>
                  <th scope="row">
                    <bdi>{one.name}</bdi> <small class="faint">{one.type}</small>
                  </th>
                  <td class="num">{rate(rates.rate(sourceKey(one.name, "received")))}</td>
                  <td class="num">{bytes(rates.rate(sourceKey(one.name, "bytes")))}</td>
                  <td class="num">{count(one.connections)}</td>
                  <td class="num">{count(one.received)}</td>
                  {held.current && <td class="num">{count(one.held ?? 0)}</td>}
                  <td class={gone > 0 ? "num bad-text" : "num calm"} title={reasons(one)}>
                    {count(gone)}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {flow.sources.length === 0 && <p class="faint">No source is configured.</p>}
    </section>
  );
}

function reasons(one: Flow["sources"][number]): string {
  const all = { ...one.rejected, "lost in the kernel": one.kernel_dropped };
  const parts = Object.entries(all).filter(([, n]) => n > 0);
  return parts.map(([reason, n]) => `${reason}: ${count(n)}`).join("\n");
}

/** Every edge as a number: what the river shows, for those who read rather than look. */
function Routes({ flow, rates }: Parts) {
  return (
    <section class="panel" aria-labelledby="routes-title">
      <h2 id="routes-title">Routes</h2>
      <div class="scroll-x">
        <table class="grid even">
          <thead>
            <tr>
              <th scope="col">from</th>
              <th scope="col">to</th>
              <th scope="col" class="num">
                events/s
              </th>
              <th scope="col" class="num">
                events
              </th>
            </tr>
          </thead>
          <tbody>
            {flow.edges.map((edge) => (
              <tr key={edgeKey(edge.from, edge.to)}>
                <td>
                  <bdi>{edge.from}</bdi>
                </td>
                <td>
                  <bdi>{edge.to}</bdi>
                </td>
                <td class="num">{rate(rates.rate(edgeKey(edge.from, edge.to)))}</td>
                <td class="num">{count(edge.events)}</td>
              </tr>
            ))}
            {Object.entries(flow.filtered).map(([rule, n]) => (
              <tr key={`filtered/${rule}`}>
                <td class="faint">filtered by</td>
                <td>
                  <bdi>{rule}</bdi>
                </td>
                <td class="num" />
                <td class="num">{count(n)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {flow.edges.length === 0 && <p class="faint">Nothing has taken a route yet.</p>}
    </section>
  );
}

function QueuePanel({ flow, rates }: Parts) {
  const { queue } = flow;
  const full = queue.full_in_s;
  return (
    <section class="panel" aria-labelledby="queue-title">
      <h2 id="queue-title">Queue</h2>
      <Gauge name="memory" part={queue.bytes} whole={queue.bytes_max} />
      <Gauge name="disk" part={queue.disk_bytes} whole={queue.disk_bytes_max} />
      <dl class="facts">
        <dt>full in</dt>
        <dd class={full !== null && full < 3600 ? "bad-text" : ""}>
          {full === null ? "not filling" : duration(full * 1000)}
        </dd>
        <dt>segments</dt>
        <dd>{count(queue.segments)}</dd>
        <dt>stands still</dt>
        <dd class={queue.stall ? "bad-text" : "calm"}>{queue.stall ?? "no"}</dd>
      </dl>
      <p class="faint">
        <small>on disk, the last two minutes</small>
      </p>
      <Spark points={rates.series("queue/disk_bytes")} label="bytes on disk, last two minutes" />
    </section>
  );
}

function Gauge({ name, part, whole }: { name: string; part: number; whole: number }) {
  const share = whole > 0 ? Math.min(1, part / whole) : 0;
  return (
    <div class="gauge">
      <span>{name}</span>
      <meter min={0} max={1} high={0.8} value={share} aria-label={`${name} in use`} />
      <span class="num">
        {bytes(part)} of {bytes(whole)}
      </span>
    </div>
  );
}

function Threads({ flow }: { flow: Flow }) {
  const all = flow.threads.reduce((n, one) => n + one.cpu_percent, 0);
  return (
    <section class="panel" aria-labelledby="threads-title">
      <h2 id="threads-title">
        Threads <small>{all.toFixed(0)} % of a core together</small>
      </h2>
      <div class="threads">
        {flow.threads.map((one) => (
          <div class="gauge" key={one.name}>
            <span>{one.name}</span>
            <meter
              min={0}
              max={100}
              high={85}
              value={Math.min(100, one.cpu_percent)}
              aria-label={`CPU of ${one.name}`}
            />
            <span class="num">{one.cpu_percent.toFixed(1)} %</span>
          </div>
        ))}
      </div>
    </section>
  );
}
