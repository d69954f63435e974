// A uPlot chart in a frame of fixed height. uPlot draws on a canvas and sets its styles through
// the CSSOM, which a strict Content-Security-Policy allows.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { clock, day } from "../lib/format";
import { ink, useTheme } from "../lib/theme";

export interface ChartInk {
  text: string;
  grid: string;
  accent: string;
  series: string[];
}

interface Props {
  data: uPlot.AlignedData;
  height: number;
  /** What it shows, for those who do not see it. */
  label: string;
  /** Made anew whenever this changes; otherwise only the data is. */
  shape: string;
  build: (ink: ChartInk) => Omit<uPlot.Options, "width" | "height">;
}

export const SERIES_COLOURS = 8;

export function Chart({ data, height, label, shape, build }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { version } = useTheme();
  const latest = useRef({ data, build });
  latest.current = { data, build };

  // biome-ignore lint/correctness/useExhaustiveDependencies: the shape and colours decide
  useEffect(() => {
    const home = frame.current;
    if (!home) {
      return;
    }
    const size = () => ({ width: Math.max(home.clientWidth, 60), height });
    const made = new uPlot(
      { ...latest.current.build(inks(home)), ...size() },
      latest.current.data,
      home,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => {
      if (made.width !== size().width) {
        made.setSize(size());
      }
    });
    observer.observe(home);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, height, version]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  return <div ref={frame} class={`chart chart-${height}`} role="img" aria-label={label} />;
}

function inks(near: Element): ChartInk {
  return {
    text: ink(near, "--faint"),
    grid: ink(near, "--rule"),
    accent: ink(near, "--accent"),
    series: Array.from({ length: SERIES_COLOURS }, (_, i) => ink(near, `--series-${i}`)),
  };
}

const FONT = "11px system-ui, sans-serif";

/** A time axis with hours to 24 and dates in the order of their size. */
export function timeAxis(ink: ChartInk): uPlot.Axis {
  return {
    stroke: ink.text,
    font: FONT,
    size: 24,
    gap: 2,
    space: 80,
    grid: { show: false },
    ticks: { show: true, stroke: ink.grid, width: 1, size: 4 },
    values: (_plot, splits, _axis, _space, step) => splits.map((ms) => tick(ms, step)),
  };
}

const DAY_MS = 86_400_000;

function tick(ms: number, step: number): string {
  if (step >= DAY_MS) {
    return day(ms);
  }
  const text = clock(ms);
  return text === "00:00:00" ? day(ms) : step >= 60_000 ? text.slice(0, 5) : text;
}

export function countAxis(ink: ChartInk, values: (n: number) => string): uPlot.Axis {
  return {
    stroke: ink.text,
    font: FONT,
    size: 48,
    gap: 4,
    space: 24,
    grid: { stroke: ink.grid, width: 1 },
    ticks: { show: false },
    values: (_plot, splits) => splits.map(values),
  };
}
