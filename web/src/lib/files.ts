// Files as a table wants them: rates of the last seconds, from lists of totals.

import type {
  FileLosses,
  Files,
  ListedFile,
  PollingCause,
  SourceFiles,
  StreamPolicy,
  Workload,
} from "./contract";
import { bytes } from "./format";

/** Lists that are looked back over: ten seconds, since one comes every two. */
const WINDOW = 6;

export interface FileRow {
  key: string;
  source: string;
  file: ListedFile;
  /** Bytes read a second; null until there are two lists. */
  bytesRate: number | null;
  /** Share of the present file that is read, 0 to 1; null of a file that is not open. */
  share: number | null;
  losses: { name: string; text: string }[];
}

export interface WorkloadRow {
  key: string;
  source: string;
  workload: Workload;
  /** Bytes read a second of its listed files; null until there are two lists, or without a file. */
  bytesRate: number | null;
  /** Unread bytes of its listed files. */
  lag_bytes: number;
  policies: PolicyRow[];
}

/** A policy of a container, and the streams that have it. */
export interface PolicyRow {
  /** Empty: all streams have it. */
  stream: string;
  policy: StreamPolicy;
}

/** What each state means, and whether somebody has to look. */
export const STATES: Record<string, { label: string; words: string; ill: boolean }> = {
  live: { label: "live", words: "something was added within the last seconds", ill: false },
  watched: { label: "watched", words: "silent; the kernel says when it grows", ill: false },
  polled: { label: "polled", words: "silent; looked at every poll_interval", ill: false },
  waiting_for_metadata: {
    label: "waiting",
    words: "its lines wait for the metadata of their pod",
    ill: false,
  },
  held: {
    label: "held",
    words: "its name is gone; open until it is read, for rotate_hold at most",
    ill: false,
  },
  failed: { label: "failed", words: "it cannot be read; tried again every second", ill: true },
  unopened: { label: "not open", words: "it matches, and cannot be opened", ill: true },
  skipped: { label: "skipped", words: "it matches, and is passed over", ill: false },
};

export function stateOf(state: string): { label: string; words: string; ill: boolean } {
  return STATES[state] ?? { label: state, words: "", ill: false };
}

const LOSSES: [keyof FileLosses, string][] = [
  ["missed_generations", "deleted unopened"],
  ["lines_cut", "cut"],
  ["partial_flushed", "without an end"],
  ["malformed_lines", "in another form"],
  ["holes_skipped", "holes"],
  ["truncated", "truncated"],
];

export function lossesOf(losses: FileLosses): { name: string; text: string }[] {
  const counts = LOSSES.filter(([key]) => losses[key] > 0).map(([key, name]) => ({
    name,
    text: String(losses[key]),
  }));
  const lost = losses.rotated_away_unread_bytes;
  return lost > 0 ? [{ name: "deleted unread", text: bytes(lost) }, ...counts] : counts;
}

/** The name of a file with its folder, which is what tells containers apart, and the rest. */
export function partsOf(path: string): { folder: string; name: string } {
  const [, folder = "", name = path] = /^(.*\/)([^/]*\/[^/]*)$/s.exec(path) ?? [];
  return { folder, name };
}

/** Ill ones first, those that are passed over last. */
function rankOf(state: string): number {
  return stateOf(state).ill ? 0 : state === "skipped" ? 2 : 1;
}

export class FileWindow {
  #lists: Files[] = [];

  /** Takes the next list. Totals that fall are of another process, and begin anew. */
  push(list: Files): void {
    const last = this.#lists.at(-1);
    if (last && list.at_ms <= last.at_ms) {
      this.#lists = [];
    }
    this.#lists = [...this.#lists, list].slice(-WINDOW);
  }

  /** Ill ones first, then those with most unread bytes. A rate moves no row: it changes always. */
  files(): FileRow[] {
    const [before, now, seconds] = this.#ends();
    const rows = now.flatMap((source) => {
      const old = new Map(sourceOf(before, source)?.files.map((file) => [file.path, file]));
      return source.files.map((file): FileRow => {
        const bytesRate = perSecond(old.get(file.path)?.read_bytes, file.read_bytes, seconds);
        return {
          key: `${source.source}\0${file.path}\0${file.generation}\0${file.state}`,
          source: source.source,
          file,
          bytesRate,
          share: isOpen(file) ? (file.size > 0 ? file.position / file.size : 1) : null,
          losses: lossesOf(file.losses),
        };
      });
    });
    return rows.sort(
      (a, b) =>
        rankOf(a.file.state) - rankOf(b.file.state) ||
        b.file.lag_bytes - a.file.lag_bytes ||
        (a.file.path < b.file.path ? -1 : 1),
    );
  }

  /** Those with problems first, then by name. */
  workloads(): WorkloadRow[] {
    const files = this.files();
    const now = this.#lists.at(-1)?.sources ?? [];
    const rows = now.flatMap((source) =>
      (source.workloads ?? []).map((workload): WorkloadRow => {
        const own = files.filter(
          (row) => row.source === source.source && isOf(row.file.path, workload),
        );
        const rates = own.map((row) => row.bytesRate).filter((rate) => rate !== null);
        return {
          key: `${source.source}\0${workload.namespace}\0${workload.pod}\0${workload.uid}\0${workload.container}`,
          source: source.source,
          workload,
          bytesRate: rates.length > 0 ? rates.reduce((sum, rate) => sum + rate, 0) : null,
          lag_bytes: own.reduce((sum, row) => sum + row.file.lag_bytes, 0),
          policies: policiesOf(workload.streams),
        };
      }),
    );
    return rows.sort(
      (a, b) => b.workload.problems.length - a.workload.problems.length || (a.key < b.key ? -1 : 1),
    );
  }

  #ends(): [SourceFiles[], SourceFiles[], number] {
    const [first, last] = [this.#lists[0], this.#lists.at(-1)];
    if (first === undefined || last === undefined) {
      return [[], [], 0];
    }
    return [first.sources, last.sources, (last.at_ms - first.at_ms) / 1000];
  }
}

function isOpen(file: ListedFile): boolean {
  return file.state !== "unopened" && file.state !== "skipped";
}

/** Whether a file is a log of the container, as the kubelet names it. */
function isOf(path: string, { namespace, pod, uid, container }: Workload): boolean {
  return pod !== "" && path.includes(`/${namespace}_${pod}_${uid}/${container}/`);
}

/** One row for all streams if their policies are equal, else one for each. */
export function policiesOf(streams: readonly StreamPolicy[]): PolicyRow[] {
  const [first] = streams;
  const same = (policy: StreamPolicy) => JSON.stringify({ ...policy, stream: "" });
  if (first && streams.every((policy) => same(policy) === same(first))) {
    return [{ stream: "", policy: first }];
  }
  return streams.map((policy) => ({ stream: policy.stream, policy }));
}

function sourceOf(all: SourceFiles[], one: SourceFiles): SourceFiles | undefined {
  return all.find((other) => other.source === one.source);
}

/** Null for what was not there before, and where a total fell: then it is another one. */
function perSecond(before: number | undefined, now: number, seconds: number): number | null {
  const is_one = before !== undefined && now >= before && seconds > 0;
  return is_one ? (now - before) / seconds : null;
}

export function fittingFiles(rows: FileRow[], filter: string): FileRow[] {
  return fitting(rows, filter, ({ source, file }) => [
    source,
    file.path,
    stateOf(file.state).label,
    file.reason ?? "",
  ]);
}

export function fittingWorkloads(rows: WorkloadRow[], filter: string): WorkloadRow[] {
  return fitting(rows, filter, ({ source, workload }) => [
    source,
    `${workload.namespace}/${workload.pod}`,
    workload.workload,
    workload.container,
    ...workload.streams.flatMap(({ index, sourcetype }) => [index ?? "", sourcetype ?? ""]),
    ...workload.problems,
  ]);
}

function fitting<T>(rows: T[], filter: string, texts: (row: T) => string[]): T[] {
  const wanted = filter.trim().toLowerCase();
  const has = (row: T) => texts(row).join("\n").toLowerCase().includes(wanted);
  return wanted === "" ? rows : rows.filter(has);
}

/** Every reason for which something is polled, with the source. */
export function pollingOf(list: Files): { source: string; cause: PollingCause }[] {
  return list.sources.flatMap(({ source, polling }) => polling.map((cause) => ({ source, cause })));
}

/** Totals of all sources. */
export function totalsOf(
  list: Files,
): Record<"logs" | "failed" | "polled" | "lag_bytes" | "deleted" | "missed", number> {
  const sum = (of: (one: SourceFiles) => number) => list.sources.reduce((n, one) => n + of(one), 0);
  const unopened = list.sources.flatMap((one) => one.files).filter((f) => f.state === "unopened");
  return {
    logs: sum((one) => one.logs),
    failed: sum((one) => one.failed) + unopened.length,
    polled: sum((one) => one.polled),
    lag_bytes: sum((one) => one.lag_bytes),
    deleted: sum((one) => one.rotated_away_unread_bytes),
    missed: sum((one) => one.missed_generations),
  };
}
