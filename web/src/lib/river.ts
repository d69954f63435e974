// Where everything of the river is drawn: pure geometry, in pixels.

import type { Flow } from "./contract";
import { destinationKey, type Rates, sourceKey } from "./rates";

/** Below this width the numbers stand in the boxes rather than on the water. */
const WIDE_PX = 700;

/** Rows of sources or destinations; further ones are gathered in the last. */
export const ROWS_MAX = 10;

/** Pixels of a row, and of the widest water. */
const ROW_PX = 68;
const WATER_PX = 34;

export interface Box {
  key: string;
  name: string;
  kind: string;
  /** Events a second. */
  rate: number | null;
  /** Not well: what is the matter, in a word. */
  trouble: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** One band of water from one side to another. */
export interface Band {
  key: string;
  path: string;
  rate: number | null;
  /** Where its number stands. */
  label: { x: number; y: number; anchor: "start" | "middle" | "end" };
}

export interface River {
  width: number;
  height: number;
  wide: boolean;
  sources: Box[];
  destinations: Box[];
  gate: { x: number; top: number; bottom: number };
  queue: Box;
  bands: Band[];
}

interface Node {
  key: string;
  name: string;
  kind: string;
  rate: number | null;
  trouble: string;
}

export function layRiver(flow: Flow, rates: Rates, width: number): River {
  const wide = width >= WIDE_PX;
  const sources = gather(flow.sources.map((one) => sourceNode(one, rates)));
  const destinations = gather(flow.destinations.map((one) => destinationNode(one, rates)));
  const rows = Math.max(sources.length, destinations.length, 2);
  const height = rows * ROW_PX + 40;
  const side = wide ? 190 : Math.min(124, Math.floor(width * 0.31));
  const boxHeight = wide ? 46 : 58;
  const column = (nodes: Node[], x: number): Box[] =>
    nodes.map((node, i) => ({
      ...node,
      x,
      y: middle(i, nodes.length, height) - boxHeight / 2,
      width: side,
      height: boxHeight,
    }));
  const left = column(sources, 1);
  const right = column(destinations, width - side - 1);
  const queueWidth = wide ? 132 : Math.max(62, Math.floor(width * 0.18));
  const queueHeight = Math.max(96, rows * ROW_PX - 24);
  const total = rates.rate("in");
  const queue: Box = {
    key: "queue",
    name: "queue",
    kind: "",
    rate: total,
    trouble: flow.queue.stall ?? "",
    x: Math.round((width - queueWidth) / 2 + (wide ? 40 : 6)),
    y: (height - queueHeight) / 2,
    width: queueWidth,
    height: queueHeight,
  };
  const gateX = wide ? Math.round((side + queue.x) / 2) + 24 : Math.round((side + queue.x) / 2);
  const gate = { x: gateX, top: queue.y + 10, bottom: queue.y + queueHeight - 10 };
  const bands = layBands(left, right, queue, gate.x, flow, rates);
  return { width, height, wide, sources: left, destinations: right, gate, queue, bands };
}

function middle(i: number, n: number, height: number): number {
  return ((i + 0.5) * height) / n + (height / 2 - ((i + 0.5) * height) / n) * (n > 1 ? 0.06 : 0);
}

function layBands(
  left: Box[],
  right: Box[],
  queue: Box,
  gateX: number,
  flow: Flow,
  rates: Rates,
): Band[] {
  const most = Math.max(1e-9, rates.rate("in") ?? 0, ...right.map((box) => box.rate ?? 0));
  const thick = (rate: number | null) => Math.max(1.5, (WATER_PX * (rate ?? 0)) / most);
  const centre = queue.y + queue.height / 2;
  const trunkRate = acceptedRate(flow, rates);
  const bands: Band[] = [];
  const sum = left.reduce((all, box) => all + thick(box.rate), 0);
  let y = centre - sum / 2;
  for (const box of left) {
    const t = thick(box.rate);
    const from = { x: box.x + box.width, y: box.y + box.height / 2 };
    bands.push({
      key: box.key,
      path: band(from, { x: gateX, y: y + t / 2 }, t),
      rate: box.rate,
      label: { x: from.x + 8, y: from.y - t / 2 - 5, anchor: "start" },
    });
    y += t;
  }
  const t = thick(trunkRate);
  bands.push({
    key: "trunk",
    path: band({ x: gateX, y: centre }, { x: queue.x, y: centre }, t),
    rate: trunkRate,
    label: { x: (gateX + queue.x) / 2, y: centre - t / 2 - 5, anchor: "middle" },
  });
  right.forEach((box, i) => {
    const out = thick(box.rate);
    const room = queue.height - WATER_PX - 8;
    const share = right.length > 1 ? i / (right.length - 1) : 0.5;
    const from = { x: queue.x + queue.width, y: queue.y + WATER_PX / 2 + 4 + share * room };
    const to = { x: box.x, y: box.y + box.height / 2 };
    bands.push({
      key: box.key,
      path: band(from, to, out),
      rate: box.rate,
      label: { x: to.x - 8, y: to.y - out / 2 - 5, anchor: "end" },
    });
  });
  return bands;
}

/** A band of even thickness that leaves and arrives level. */
function band(from: { x: number; y: number }, to: { x: number; y: number }, thick: number): string {
  const half = thick / 2;
  const bend = (from.x + to.x) / 2;
  const n = (value: number) => value.toFixed(1);
  const edge = (a: { x: number; y: number }, b: { x: number; y: number }, shift: number) =>
    `C${n(bend)} ${n(a.y + shift)} ${n(bend)} ${n(b.y + shift)} ${n(b.x)} ${n(b.y + shift)}`;
  const start = `M${n(from.x)} ${n(from.y - half)}`;
  const down = `L${n(to.x)} ${n(to.y + half)}`;
  return `${start}${edge(from, to, -half)}${down}${edge(to, from, half)}Z`;
}

/** What goes into the queue: events that sources accepted, less what rules took out. */
function acceptedRate(flow: Flow, rates: Rates): number | null {
  const all = flow.sources.map((one) => rates.rate(sourceKey(one.name, "accepted")));
  return all.some((one) => one === null) ? null : all.reduce<number>((a, b) => a + (b ?? 0), 0);
}

function sourceNode(one: Flow["sources"][number], rates: Rates): Node {
  const lost = rates.rate(sourceKey(one.name, "lost")) ?? 0;
  return {
    key: `source/${one.name}`,
    name: one.name,
    kind: one.type,
    rate: rates.rate(sourceKey(one.name, "received")),
    trouble: lost > 0 ? "losing events" : "",
  };
}

function destinationNode(one: Flow["destinations"][number], rates: Rates): Node {
  return {
    key: `destination/${one.name}`,
    name: one.name,
    kind: one.type,
    rate: rates.rate(destinationKey(one.name, "delivered")),
    trouble: isWell(one.state) ? "" : one.state,
  };
}

/** Whether a destination needs nobody: what was removed is done. */
export const isWell = (state: string) => state === "ok" || state === "removed";

/** At most [`ROWS_MAX`] rows: the busiest by name, the others in one. */
function gather(nodes: Node[]): Node[] {
  if (nodes.length <= ROWS_MAX) {
    return nodes;
  }
  const shown = nodes.slice(0, ROWS_MAX - 1);
  const others = nodes.slice(ROWS_MAX - 1);
  const known = others.map((one) => one.rate).filter((one) => one !== null);
  const trouble = others.filter((one) => one.trouble !== "").length;
  return [
    ...shown,
    {
      key: "others",
      name: `${others.length} more`,
      kind: "see below",
      rate: known.length > 0 ? known.reduce((a, b) => a + b, 0) : null,
      trouble: trouble > 0 ? `${trouble} not well` : "",
    },
  ];
}

/** Cuts a name to the pixels that it has, at some seven pixels a character. */
export function fit(text: string, px: number): string {
  const characters = Array.from(text);
  const room = Math.max(3, Math.floor(px / 7.2));
  return characters.length <= room ? text : `${characters.slice(0, room - 1).join("")}…`;
}
