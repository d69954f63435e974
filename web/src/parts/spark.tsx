// The last two minutes of a number as a line of fixed size.

import { POINTS, type Point } from "../lib/rates";

interface Props {
  points: readonly Point[];
  label: string;
}

const HEIGHT = 24;

export function Spark({ points, label }: Props) {
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${POINTS - 1} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path d={line(points)} />
    </svg>
  );
}

/** The newest point is at the right edge; a null breaks the line. */
function line(points: readonly Point[]): string {
  const top = Math.max(1e-9, ...points.map((point) => point ?? 0));
  const first = POINTS - points.length;
  let pen = "M";
  let path = "";
  points.forEach((point, i) => {
    if (point === null) {
      pen = "M";
      return;
    }
    const y = HEIGHT - 1.5 - ((HEIGHT - 3) * point) / top;
    path += `${pen}${first + i} ${y.toFixed(1)}`;
    pen = "L";
  });
  return path;
}
