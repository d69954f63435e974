// A moment: local time to read, UTC on hover.

import { clock, moment, NONE, utc } from "../lib/format";

interface Props {
  ms: number | null | undefined;
  /** The nanoseconds that it was made from, for the hover. */
  ns?: string;
  /** The time of day alone, for lists of one day. */
  timeOnly?: boolean;
  millis?: boolean;
}

export function When({ ms, ns, timeOnly = false, millis = false }: Props) {
  if (ms === null || ms === undefined || !Number.isFinite(new Date(ms).getTime())) {
    return <span>{NONE}</span>;
  }
  return (
    <time dateTime={new Date(ms).toISOString()} title={utc(ms, ns)}>
      {timeOnly ? clock(ms, millis) : moment(ms, millis)}
    </time>
  );
}
