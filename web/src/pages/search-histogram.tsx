// When the events happened. Dragging over it zooms; so do the buttons beside it.

import { useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Histogram } from "../lib/contract";
import { clock, count, duration, moment, plural, short } from "../lib/format";
import type { SearchView } from "../lib/search-run";
import type { SearchState } from "../lib/url";
import { Chart, type ChartInk, countAxis, timeAxis } from "../parts/chart";

interface Props {
  view: SearchView;
  onGo: (change: Partial<SearchState>) => void;
}

/** A drag that is narrower is a click. */
const DRAG_PX = 4;

export function HistogramPanel({ view, onGo }: Props) {
  const { histogram } = view;
  const hovered = useRef<HTMLSpanElement>(null);
  const total = histogram?.counts.reduce((a, b) => a + b, 0) ?? 0;
  const rest = histogram
    ? `${plural(total, "event")} in buckets of ${duration(histogram.bucket_ms)}`
    : "";
  return (
    <section class="panel histogram" aria-label="When it happened">
      <p class="histogram-head">
        <span>
          <span ref={hovered} class="hovered" />
          <span class="faint rest">{rest}</span>
        </span>
        <FutureEvents view={view} onGo={onGo} />
        <ZoomButtons histogram={histogram} onGo={onGo} />
      </p>
      <div class="histogram-frame">
        {histogram && histogram.counts.length > 0 && (
          <Bars
            histogram={histogram}
            onGo={onGo}
            onHover={(text) => hover(hovered.current, text)}
          />
        )}
      </div>
    </section>
  );
}

/** Events of the future are dated so many milliseconds after now at least. */
const AHEAD_MS = 2_000;

/** Events that are dated after now are in no range that ends now: one clock must not fill it. */
function FutureEvents({ view, onGo }: Props) {
  const future = view.end?.future ?? 0;
  const from = view.plan?.to_ms;
  if (future === 0 || from === undefined) {
    return null;
  }
  return (
    <button
      type="button"
      class="future"
      title="The clock of a sender is ahead: these events are not among those below."
      onClick={() => onGo({ since: String(from + AHEAD_MS), until: "all", tail: false })}
    >
      {future === 1 ? "1 event is" : `${count(future)} events are`} dated in the future
    </button>
  );
}

/** The hover changes often, so it goes past the drawing of the page, into an element of its own. */
function hover(home: HTMLElement | null, text: string): void {
  if (home) {
    home.textContent = text;
  }
}

function ZoomButtons({ histogram, onGo }: { histogram: Histogram | null; onGo: Props["onGo"] }) {
  const zoom = (factor: number) => {
    if (histogram) {
      const span = histogram.bucket_ms * histogram.counts.length;
      const middle = histogram.from_ms + span / 2;
      const half = Math.max(500, (span * factor) / 2);
      onGo({ since: String(Math.round(middle - half)), until: String(Math.round(middle + half)) });
    }
  };
  return (
    <span class="zoom">
      <button type="button" class="button small" disabled={!histogram} onClick={() => zoom(0.5)}>
        Zoom in
      </button>
      <button type="button" class="button small" disabled={!histogram} onClick={() => zoom(2)}>
        Zoom out
      </button>
    </span>
  );
}

interface BarsProps {
  histogram: Histogram;
  onGo: Props["onGo"];
  onHover: (text: string) => void;
}

function Bars({ histogram, onGo, onHover }: BarsProps) {
  const latest = useRef({ histogram, onGo, onHover });
  latest.current = { histogram, onGo, onHover };
  const { from_ms, bucket_ms, counts } = histogram;
  const data = useMemo<uPlot.AlignedData>(
    () => [counts.map((_, i) => from_ms + i * bucket_ms), counts],
    [from_ms, bucket_ms, counts],
  );
  const build = (ink: ChartInk): Omit<uPlot.Options, "width" | "height"> => ({
    ms: 1,
    legend: { show: false },
    padding: [6, 8, 0, 0],
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    scales: {
      x: { time: true, range: () => [from_ms, from_ms + counts.length * bucket_ms] },
      y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.05)] },
    },
    axes: [timeAxis(ink), countAxis(ink, short)],
    series: [{}, bars(ink)],
    hooks: {
      setSelect: [(plot) => select(plot, latest.current)],
      setCursor: [(plot) => latest.current.onHover(bucketWords(plot, latest.current.histogram))],
    },
  });
  const peak = Math.max(0, ...counts);
  return (
    <Chart
      data={data}
      height={120}
      shape={`${from_ms}/${bucket_ms}/${counts.length}`}
      label={`${counts.length} buckets from ${moment(from_ms)}, at most ${count(peak)} events in one`}
      build={build}
    />
  );
}

function bars(ink: ChartInk): uPlot.Series {
  const series: uPlot.Series = { fill: ink.accent, width: 0, points: { show: false } };
  const paths = uPlot.paths.bars?.({ size: [0.92, 100], align: 1 });
  return paths ? { ...series, paths } : series;
}

/** A drag becomes a time range, widened to whole buckets. */
function select(plot: uPlot, { histogram, onGo }: BarsProps): void {
  const { left, width } = plot.select;
  if (width < DRAG_PX) {
    return;
  }
  const { from_ms, bucket_ms, counts } = histogram;
  const bucketAt = (px: number) => (plot.posToVal(px, "x") - from_ms) / bucket_ms;
  const first = Math.max(0, Math.floor(bucketAt(left)));
  const last = Math.min(counts.length, Math.ceil(bucketAt(left + width)));
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  onGo({
    since: String(Math.round(from_ms + first * bucket_ms)),
    until: String(Math.round(from_ms + last * bucket_ms)),
  });
}

/** Bars begin at their bucket's start, so the bucket is the one that the pointer is in. */
function bucketWords(plot: uPlot, { from_ms, bucket_ms, counts }: Histogram): string {
  const left = plot.cursor.left ?? -1;
  if (left < 0) {
    return "";
  }
  const i = Math.floor((plot.posToVal(left, "x") - from_ms) / bucket_ms);
  const n = counts[i];
  const start = from_ms + i * bucket_ms;
  return n === undefined
    ? ""
    : `${moment(start)} – ${clock(start + bucket_ms)}: ${plural(n, "event")}`;
}
