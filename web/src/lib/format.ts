// Numbers, sizes, durations and times in words. All of it is pure; times are in the local zone.

const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

/** Shown where there is no value. */
export const NONE = "–";

/** A whole number with separators: `12,345`. */
export function count(n: number | null | undefined): string {
  return n === null || n === undefined || !Number.isFinite(n) ? NONE : WHOLE.format(n);
}

/** A number that has to be short: `950`, `12.3 k`, `4.56 M`. */
export function short(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) {
    return NONE;
  }
  const size = Math.abs(n);
  for (const [unit, name] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    // 999,950 is 1.00 M, not 1,000 k.
    if (size >= unit * 0.9995) {
      return `${digits(n / unit)} ${name}`;
    }
  }
  return Number.isInteger(n) ? String(n) : n.toFixed(size < 10 ? 1 : 0);
}

/** Three digits: 1.23, 12.3, 123. */
function digits(n: number): string {
  const size = Math.abs(n);
  return n.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

/** Events a second: one decimal below ten, whole up to 99,999, then short. */
export function rate(perSecond: number | null | undefined): string {
  if (perSecond === null || perSecond === undefined || !Number.isFinite(perSecond)) {
    return NONE;
  }
  if (perSecond > 0 && perSecond < 0.05) {
    return "<0.1";
  }
  if (perSecond < 9.95) {
    return perSecond === 0 ? "0" : perSecond.toFixed(1);
  }
  return perSecond < 99_999.5 ? count(perSecond) : short(perSecond);
}

/** Bytes in powers of 1024: `512 B`, `1.50 KiB`. */
export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) {
    return NONE;
  }
  let size = n;
  let unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  while (Math.abs(size) >= 1023.5 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? count(size) : digits(size)} ${units[unit]}`;
}

/** A length of time in its two largest units: `850 ms`, `1.2 s`, `3 min 20 s`, `2 d 4 h`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) {
    return NONE;
  }
  if (ms < 0) {
    return `−${duration(-ms)}`;
  }
  if (ms < 999.5) {
    return ms > 0 && ms < 9.95 ? `${ms.toFixed(1)} ms` : `${ms.toFixed(0)} ms`;
  }
  if (ms < 59_950) {
    return `${(ms / 1000).toFixed(ms < 9_950 ? 1 : 0)} s`;
  }
  const seconds = Math.round(ms / 1000);
  for (const [unit, name, below, belowName] of [
    [86_400, "d", 3_600, "h"],
    [3_600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ] as const) {
    if (seconds >= unit) {
      const rest = Math.floor((seconds % unit) / below);
      const whole = `${count(Math.floor(seconds / unit))} ${name}`;
      return rest > 0 ? `${whole} ${rest} ${belowName}` : whole;
    }
  }
  return "60 s";
}

/** A share from 0 to 1 in percent. */
export function percent(part: number, whole: number): string {
  if (whole <= 0) {
    return "0 %";
  }
  const share = (100 * part) / whole;
  return `${share > 0 && share < 9.95 ? share.toFixed(1) : share.toFixed(0)} %`;
}

/** Nanoseconds since 1970, as a decimal string or number, in milliseconds with a fraction. */
export function msOfNs(ns: string | number): number {
  if (typeof ns === "number") {
    return ns / 1e6;
  }
  if (!/^-?\d{1,20}$/.test(ns)) {
    return Number.NaN;
  }
  const whole = BigInt(ns);
  return Number(whole / 1_000_000n) + Number(whole % 1_000_000n) / 1e6;
}

const two = (n: number) => String(n).padStart(2, "0");

/** `2026-11-22` in the local zone. */
export function day(ms: number): string {
  const at = new Date(ms);
  return valid(at) ? `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}` : NONE;
}

/** `10:07:34` or `10:07:34.123` in the local zone. */
export function clock(ms: number, withMillis = false): string {
  const at = new Date(ms);
  if (!valid(at)) {
    return NONE;
  }
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return withMillis ? `${text}.${String(at.getMilliseconds()).padStart(3, "0")}` : text;
}

/** `2026-11-22 10:07:34` in the local zone. */
export function moment(ms: number, withMillis = false): string {
  return valid(new Date(ms)) ? `${day(ms)} ${clock(ms, withMillis)}` : NONE;
}

/** For the hover: `2026-11-22 10:07:34.123456789 UTC`. */
export function utc(ms: number, ns?: string): string {
  const at = new Date(ms);
  if (!valid(at)) {
    return NONE;
  }
  const text = at.toISOString().replace("T", " ").replace("Z", "");
  const more = ns && /^\d{10,20}$/.test(ns) ? ns.slice(-6) : "";
  return `${text}${more} UTC`;
}

function valid(at: Date): boolean {
  return Number.isFinite(at.getTime());
}

/** RFC 3339 in UTC from nanoseconds, nothing rounded. */
export function rfc3339OfNs(ns: bigint): string {
  const second = 1_000_000_000n;
  // Rounded down, so that a time before 1970 is right too.
  const whole = ns >= 0n ? ns / second : -((-ns + second - 1n) / second);
  const rest = ns - whole * second;
  const text = new Date(Number(whole) * 1000).toISOString().slice(0, 19);
  return `${text}.${String(rest).padStart(9, "0")}Z`;
}

/** The severity names of RFC 5424, table 2. */
const SEVERITIES = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

export function severityName(severity: number | undefined): string {
  return severity === undefined ? "" : (SEVERITIES[severity] ?? String(severity));
}

/** The reverse; null for what is no severity. */
export function severityRank(name: unknown): number | null {
  const rank = SEVERITIES.indexOf(String(name));
  return rank < 0 ? null : rank;
}

/** The facility names of RFC 5424, table 1. */
const FACILITIES = (
  "kern user mail daemon auth syslog lpr news uucp cron authpriv ftp ntp audit alert clock " +
  "local0 local1 local2 local3 local4 local5 local6 local7"
).split(" ");

export function facilityName(facility: number | undefined): string {
  return facility === undefined ? "" : (FACILITIES[facility] ?? String(facility));
}

/**
 * Text from an event as it may be shown: what would not be seen, or would turn the line around,
 * becomes a sign for itself. `lines`: line feeds and tabs stay.
 */
export function visible(text: string, lines = false): string {
  return text.replace(HIDDEN, (c) => {
    const code = c.codePointAt(0) ?? 0;
    if (lines && (c === "\n" || c === "\t")) {
      return c;
    }
    if (code < 0x20) {
      return String.fromCodePoint(0x2400 + code);
    }
    return code === 0x7f ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** Control characters, and those of Unicode that steer direction or have no width. */
const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff]/g;

/** One or many: `1 event`, `2 events`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** The sum of a table of counts. */
export function sum(counts: Record<string, number> | undefined): number {
  return Object.values(counts ?? {}).reduce((a, b) => a + b, 0);
}
