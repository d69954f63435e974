// What is wrong, why, and what to do; and what lies in quarantine.

import type { Alarm, Flow } from "../lib/contract";
import { count, duration } from "../lib/format";
import { useLive } from "../lib/live";
import { isWell } from "../lib/river";
import { EventText } from "../parts/event-text";
import { Prose } from "../parts/prose";
import { When } from "../parts/when";
import { Quarantine } from "./health-quarantine";

export function HealthPage() {
  const { flow, state } = useLive();
  const waiting = flow === null && (state.kind === "connecting" || state.kind === "open");
  return (
    <div class="health">
      <div class="page-head">
        <h1>Health</h1>
        <p class="status" role="status">
          {flow === null ? "Asking…" : alarmWords(flow.alarms)}
        </p>
      </div>
      {/* Nothing is put below what is not there yet: it would jump. */}
      {!waiting && <Sections flow={flow} />}
    </div>
  );
}

function Sections({ flow }: { flow: Flow | null }) {
  return (
    <>
      <section class="panel" aria-labelledby="alarms-title">
        <h2 id="alarms-title">Alarms</h2>
        {flow?.alarms.length === 0 && (
          <p class="all-well">Every source, the queue and every destination make progress.</p>
        )}
        <ul class="alarms">
          {flow?.alarms.map((alarm) => (
            <AlarmCard key={alarm.id} alarm={alarm} at_ms={flow.at_ms} />
          ))}
        </ul>
      </section>
      <Edges flow={flow} />
      <Quarantine />
    </>
  );
}

function alarmWords(alarms: Alarm[]): string {
  if (alarms.length === 0) {
    return "All is well";
  }
  return alarms.length === 1 ? "1 alarm" : `${alarms.length} alarms`;
}

/** The severities that shout; every other word is a warning. */
const LOUD = /^(critical|crit|error|err|alert|emerg|page)$/i;

/** True for an alarm by which events are lost or stand still. */
export function isCritical(alarm: Alarm): boolean {
  return LOUD.test(alarm.severity);
}

function AlarmCard({ alarm, at_ms }: { alarm: Alarm; at_ms: number }) {
  const link = safeLink(alarm.link);
  return (
    <li class={isCritical(alarm) ? "alarm bad" : "alarm warm"}>
      <p class="alarm-what">
        <span class="tag">{alarm.severity}</span> <EventText text={alarm.what} />
      </p>
      <p class="alarm-since faint">
        since <When ms={alarm.since_ms} />, for {duration(Math.max(0, at_ms - alarm.since_ms))}
      </p>
      <dl>
        <dt>Cause</dt>
        <dd>
          <Prose text={alarm.cause} />
        </dd>
        <dt>Remedy</dt>
        <dd>
          <Prose text={alarm.remedy} />
        </dd>
      </dl>
      {link && (
        <a href={link} rel="noreferrer">
          More about it
        </a>
      )}
      {!link && alarm.link && (
        <p class="faint">
          More about it in <EventText text={alarm.link} />
        </p>
      )}
    </li>
  );
}

/** A link to this page, to a guide that this server has at `docs/…`, or to the web. Anything else,
 * such as `javascript:`, is none. */
export function safeLink(link: string | null | undefined): string | null {
  return link && /^(#|docs\/|https?:\/\/)/.test(link) ? link : null;
}

/** Whether each edge makes progress, from the same snapshot as the alarms. */
function Edges({ flow }: { flow: Flow | null }) {
  const edges = flow ? edgesOf(flow) : [];
  return (
    <section class="panel" aria-labelledby="edges-title">
      <h2 id="edges-title">Progress</h2>
      <ul class="edges">
        {edges.map((edge) => (
          <li key={`${edge.kind}/${edge.name}`} class={edge.trouble ? "edge bad" : "edge"}>
            <span class="dot" aria-hidden="true" />
            <span class="edge-name">
              <bdi>{edge.name}</bdi>{" "}
              {edge.kind !== edge.name && <small class="faint">{edge.kind}</small>}
            </span>
            <span class="edge-state">
              <EventText text={edge.trouble || edge.well} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface EdgeState {
  name: string;
  kind: string;
  well: string;
  /** Empty where all is well. */
  trouble: string;
}

function edgesOf(flow: Flow): EdgeState[] {
  const sources = flow.sources.map(({ name, received }) => ({
    name,
    kind: "source",
    well: received > 0 ? "receives" : "has received nothing yet",
    trouble: "",
  }));
  const destinations = flow.destinations.map(({ name, state, error, pending }) => ({
    name,
    kind: "destination",
    well: pending > 0 ? `takes events, ${count(pending)} pending` : "takes events",
    trouble: isWell(state) ? "" : error ? `${state}: ${error}` : state,
  }));
  const queue = { name: "queue", kind: "queue", well: "moves", trouble: flow.queue.stall ?? "" };
  return [...sources, queue, ...destinations];
}
