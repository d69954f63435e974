// The river: sources, the filter, the queue and the destinations, with events a second on every
// edge. Drawn anew once a second; nothing moves in between.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Flow } from "../lib/contract";
import { bytes, duration, rate, sum } from "../lib/format";
import type { Rates } from "../lib/rates";
import { type Box, fit, layRiver, type River } from "../lib/river";

export function RiverView({ flow, rates }: { flow: Flow; rates: Rates }) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const home = frame.current;
    if (!home) {
      return;
    }
    const observer = new ResizeObserver(() => setWidth(home.clientWidth));
    observer.observe(home);
    setWidth(home.clientWidth);
    return () => observer.disconnect();
  }, []);
  const river = width > 0 ? layRiver(flow, rates, width) : null;
  return (
    <div ref={frame} class={`river rows-${Math.max(2, rowsOf(flow))}`}>
      {river && <Drawing river={river} flow={flow} rates={rates} />}
    </div>
  );
}

function rowsOf(flow: Flow): number {
  return Math.min(10, Math.max(flow.sources.length, flow.destinations.length));
}

interface Props {
  river: River;
  flow: Flow;
  rates: Rates;
}

function Drawing({ river, flow, rates }: Props) {
  const { width, height, wide } = river;
  return (
    <svg
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={inWords(flow, rates)}
    >
      {river.bands.map((band) => (
        <path key={band.key} class={band.rate ? "water" : "water dry"} d={band.path} />
      ))}
      <Gate river={river} flow={flow} rates={rates} />
      <Queue river={river} flow={flow} />
      {river.sources.map((box) => (
        <NodeBox key={box.key} box={box} wide={wide} />
      ))}
      {river.destinations.map((box) => (
        <NodeBox key={box.key} box={box} wide={wide} />
      ))}
      {wide &&
        river.bands.map((band) => (
          <text
            key={band.key}
            class="edge-rate"
            x={band.label.x}
            y={band.label.y}
            text-anchor={band.label.anchor}
          >
            {rate(band.rate)}/s
          </text>
        ))}
    </svg>
  );
}

function NodeBox({ box, wide }: { box: Box; wide: boolean }) {
  const inner = box.width - 22;
  return (
    <g class={box.trouble ? "node bad" : "node"}>
      <title>{`${box.name} (${box.kind})${box.trouble ? `: ${box.trouble}` : ""}`}</title>
      <rect x={box.x} y={box.y} width={box.width} height={box.height} rx="8" />
      <rect class="node-edge" x={box.x} y={box.y + 8} width="3" height={box.height - 16} rx="1.5" />
      <text class="node-name" x={box.x + 13} y={box.y + 19}>
        {fit(box.name, inner)}
      </text>
      <text
        class={wide && box.trouble ? "node-trouble" : "node-kind"}
        x={box.x + 13}
        y={box.y + 36}
      >
        {wide ? fit(box.trouble || box.kind, inner) : `${rate(box.rate)}/s`}
      </text>
      {!wide && (
        <text class="node-trouble" x={box.x + 13} y={box.y + 51}>
          {fit(box.trouble, inner)}
        </text>
      )}
    </g>
  );
}

function Gate({ river, flow, rates }: Props) {
  const { x, top, bottom } = river.gate;
  const perSecond = rates.rate("filtered");
  const any = sum(flow.filtered) > 0;
  return (
    <g class={any ? "gate open" : "gate"}>
      <title>Filter: what rules take out</title>
      <line x1={x} x2={x} y1={top} y2={bottom} />
      <text class="gate-name" x={x} y={top - 6} text-anchor="middle">
        filter
      </text>
      <text class="gate-rate" x={x} y={bottom + 15} text-anchor="middle">
        {any ? `−${rate(perSecond)}/s` : "none"}
      </text>
    </g>
  );
}

function Queue({ river, flow }: { river: River; flow: Flow }) {
  const { x, y, width, height } = river.queue;
  const { queue } = flow;
  const share = queue.disk_bytes_max > 0 ? Math.min(1, queue.disk_bytes / queue.disk_bytes_max) : 0;
  const filled = Math.max(share > 0 ? 2 : 0, share * (height - 4));
  const centre = x + width / 2;
  const full = queue.full_in_s;
  return (
    <g class={queue.stall ? "queue-box bad" : "queue-box"}>
      <title>{`queue: ${bytes(queue.disk_bytes)} of ${bytes(queue.disk_bytes_max)} on disk`}</title>
      <rect x={x} y={y} width={width} height={height} rx="10" />
      <rect
        class="queue-fill"
        x={x + 2}
        y={y + height - 2 - filled}
        width={width - 4}
        height={filled}
        rx={Math.min(8, filled / 2)}
      />
      <text class="node-name" x={centre} y={y + height / 2 - 8} text-anchor="middle">
        queue
      </text>
      <text class="node-kind" x={centre} y={y + height / 2 + 9} text-anchor="middle">
        {bytes(queue.disk_bytes)}
      </text>
      <text
        class={full === null ? "node-kind" : "node-trouble"}
        x={centre}
        y={y + height / 2 + 26}
        text-anchor="middle"
      >
        {queue.stall
          ? fit("stands still", width)
          : full === null
            ? ""
            : fit(fullIn(full, width), width)}
      </text>
    </g>
  );
}

function fullIn(seconds: number, width: number): string {
  const time = duration(seconds * 1000);
  return width > 100 ? `full in ${time}` : time.split(" ").slice(0, 2).join(" ");
}

function inWords(flow: Flow, rates: Rates): string {
  const [sources, destinations] = [flow.sources.length, flow.destinations.length];
  return (
    `From ${sources} sources, ${rate(rates.rate("in"))} events a second, through filter and queue ` +
    `to ${destinations} destinations, ${rate(rates.rate("out"))} events a second. ` +
    "The tables below have every number."
  );
}
