// The loss map: each place where an event can be lost, in the order of its way. Zero is calm; what
// is not zero is red, and louder while it rises.

import { type Flow, type FlowLoss, PLACES, type Place } from "../lib/contract";
import { count, duration, rate, short } from "../lib/format";
import { lossKey, type Rates } from "../lib/rates";
import { Prose } from "../parts/prose";

const NAMES: Record<Place, string> = {
  nic: "Network card",
  softnet: "Kernel backlog",
  socket: "Sockets",
  frame: "Framing",
  filter: "Filter",
  queue: "Queue",
  destination: "Destinations",
};

/** A counter that rose within this time is rising. */
const RISING_MS = 30_000;

export function LossMap({ flow, rates }: { flow: Flow; rates: Rates }) {
  const rows = flow.loss.filter((one) => one.count > 0);
  const losses = rows.filter((one) => one.place !== "filter");
  return (
    <section class="panel" aria-labelledby="loss-title">
      <h2 id="loss-title">
        Loss map{" "}
        <small>
          {losses.length === 0
            ? "nothing was lost anywhere"
            : "each place where events can be lost"}
        </small>
      </h2>
      <ol class="loss">
        {PLACES.map((place) => (
          <PlaceBox key={place} place={place} flow={flow} rates={rates} />
        ))}
      </ol>
      {rows.length > 0 && (
        <ul class="loss-hints">
          {rows.map((one) => (
            <Hint key={lossKey(one.place, one.label)} one={one} flow={flow} rates={rates} />
          ))}
        </ul>
      )}
    </section>
  );
}

/** How a count looks: what a rule takes out is meant to go and never red. */
function mood(one: FlowLoss, flow: Flow, rates: Rates): "calm" | "meant" | "lost" | "rising" {
  if (one.count === 0) {
    return "calm";
  }
  if (one.place === "filter") {
    return "meant";
  }
  const rose = rates.lastRise(lossKey(one.place, one.label));
  return rose !== null && flow.at_ms - rose < RISING_MS ? "rising" : "lost";
}

const LOUDNESS = ["calm", "meant", "lost", "rising"] as const;

function PlaceBox({ place, flow, rates }: { place: Place; flow: Flow; rates: Rates }) {
  const here = flow.loss.filter((one) => one.place === place);
  const moods = here.map((one) => mood(one, flow, rates));
  const loudest = LOUDNESS[Math.max(0, ...moods.map((one) => LOUDNESS.indexOf(one)))] ?? "calm";
  const total = here.reduce((n, one) => n + one.count, 0);
  return (
    <li class={`place ${loudest}`}>
      <span class="place-name">{NAMES[place]}</span>
      <span class="place-count">{here.length === 0 ? "–" : short(total)}</span>
      <span class="place-note">{noteOf(here, loudest)}</span>
    </li>
  );
}

function noteOf(here: FlowLoss[], loudest: string): string {
  if (here.length === 0) {
    return "not measured";
  }
  const host = here.every((one) => !one.ours);
  const words = { calm: "none", meant: "by rule", lost: "lost earlier", rising: "losing now" };
  const word = words[loudest as keyof typeof words];
  return host ? `${word} · whole host` : word;
}

function Hint({ one, flow, rates }: { one: FlowLoss; flow: Flow; rates: Rates }) {
  const key = lossKey(one.place, one.label);
  const rose = rates.lastRise(key);
  const perSecond = rates.rate(key) ?? 0;
  return (
    <li class={`hint ${mood(one, flow, rates)}`}>
      <span class="hint-what">
        <b>{count(one.count)}</b> <bdi>{one.label}</bdi>
        {!one.ours && <small class="tag">whole host</small>}
        <small class="faint">
          {perSecond > 0
            ? `${rate(perSecond)}/s now`
            : rose === null
              ? "before this page was opened"
              : `last ${duration(flow.at_ms - rose)} ago`}
        </small>
      </span>
      {one.hint && (
        <span class="hint-do">
          <Prose text={one.hint} />
        </span>
      )}
    </li>
  );
}
