// The shapes that the admin API answers with. Times: `*_ms` are numbers (milliseconds since 1970),
// `*_ns` decimal strings (nanoseconds since 1970). Counters are totals since start.

/** Events by reason. */
export type Counts = Record<string, number>;

/** `GET /api/v1/session`. */
export interface Session {
  required: boolean;
  user: string | null;
  csrf: string;
}

export interface FlowSource {
  name: string;
  type: string;
  received: number;
  accepted: number;
  rejected: Counts;
  /** Parts of events that wait for the others. */
  held?: number;
  kernel_dropped: number;
  bytes: number;
  connections: number;
}

export interface FlowDestination {
  name: string;
  type: string;
  accepted: number;
  delivered: number;
  pending: number;
  quarantined: Counts;
  dropped: Counts;
  oldest_pending_ms: number;
  /** Null before the first request. */
  request_ms: number | null;
  /** Of a store alone. */
  stored?: FlowStored;
  /** `ok`; `removed` for one that is no longer in the configuration; or a word for what is wrong. */
  state: string;
  error?: string | null;
}

/** What a store has, and what retention and damage took from it since its start. */
export interface FlowStored {
  searchable: number;
  in_memory: number;
  expired: Counts;
  unreadable: number;
}

export interface FlowEdge {
  from: string;
  to: string;
  events: number;
}

export interface FlowQueue {
  bytes: number;
  bytes_max: number;
  disk_bytes: number;
  disk_bytes_max: number;
  segments: number;
  stall: string | null;
  full_in_s: number | null;
}

export interface FlowThread {
  name: string;
  cpu_percent: number;
}

/** Where an event can be lost, in the order of its way. */
export const PLACES = [
  "nic",
  "softnet",
  "socket",
  "frame",
  "filter",
  "queue",
  "destination",
] as const;
export type Place = (typeof PLACES)[number];

export interface FlowLoss {
  place: Place;
  label: string;
  count: number;
  /** False: the count is of the whole host, not of this process alone. */
  ours: boolean;
  hint?: string | null;
}

export interface Alarm {
  id: string;
  severity: string;
  what: string;
  since_ms: number;
  cause: string;
  remedy: string;
  /** An address of this page (`#…`) or of the web, or a page of the documentation. */
  link?: string | null;
}

/** `GET /api/v1/flow`, and each message of `/api/v1/flow/stream`. */
export interface Flow {
  at_ms: number;
  version: string;
  started_ms: number;
  balanced: boolean;
  sources: FlowSource[];
  filtered: Counts;
  destinations: FlowDestination[];
  edges: FlowEdge[];
  queue: FlowQueue;
  threads: FlowThread[];
  loss: FlowLoss[];
  alarms: Alarm[];
}

export interface SearchEvent {
  type: "event";
  id: string;
  time_ns: string;
  received_ns?: string;
  host?: string;
  source?: string;
  sourcetype?: string;
  index?: string;
  severity?: number;
  facility?: number;
  vendor?: string;
  product?: string;
  app?: string;
  proc_id?: string;
  msg_id?: string;
  raw?: string;
  message?: string;
  sender?: string;
  /** Names joined by commas. */
  anomalies?: string;
  fields?: Record<string, string>;
}

export interface Plan {
  type: "plan";
  sql: string;
  from_ms: number;
  to_ms: number;
  bucket_ms: number;
  /** Width of a table's stretches of time. */
  step_ms?: number;
  /** Words to write instead, if nothing is found. */
  hints?: string[];
}

export interface Progress {
  type: "progress";
  files_done: number;
  files_total: number;
  events_scanned: number;
  bytes_scanned: number;
}

export interface Histogram {
  type: "histogram";
  from_ms: number;
  bucket_ms: number;
  counts: number[];
}

export interface FieldSummary {
  name: string;
  distinct: number;
  top: [string | number, number][];
}

export interface Fields {
  type: "fields";
  fields: FieldSummary[];
  sampled?: boolean;
}

export interface Column {
  name: string;
  kind: "text" | "number" | "time";
}

export type Cell = string | number | boolean | null;

export interface Table {
  type: "table";
  columns: Column[];
}

export interface Row {
  type: "row";
  values: Cell[];
}

export interface End {
  type: "end";
  matched: number;
  elapsed_ms: number;
  stopped: "limit" | "time" | "memory" | "cancelled" | null;
  /** Rows of the table, shown or not, as far as they were counted. */
  rows?: number;
  /** True if there are more than that. */
  rows_more?: boolean;
  /** Events that match and are dated after now. */
  future?: number;
  /** Files of the store that could not be read; nothing of them is in the answer. */
  set_aside?: { path: string; reason: string }[];
}

export interface QueryError {
  type: "error";
  message: string;
  /** Counts characters from 1. */
  column?: number;
  length?: number;
  hint?: string;
}

/** A line of `GET /api/v1/search`. */
export type SearchLine =
  | Plan
  | Progress
  | Histogram
  | SearchEvent
  | Fields
  | Table
  | Row
  | End
  | QueryError;

/** A line of `GET /api/v1/senders`. What a version does not tell yet is absent. */
export interface Sender {
  ip: string;
  source: string;
  events: number;
  bytes: number;
  first_seen_ns?: number | string;
  last_seen_ns?: number | string;
  first_seen_ms?: number;
  last_seen_ms?: number;
  /** Events a second. */
  rate?: number | null;
  silent_s?: number | null;
  clock_skew_ms?: number | null;
  /** Such as `-05:00`: the zone that its times without one are read by, if that is a guess. */
  zone_guessed?: string | null;
  /** Header format of its last event. */
  format?: string;
  /** Vendor and product of its last events; none without packs. */
  recognised?: string | string[] | null;
  /** Events that no rule recognised. */
  unrecognised?: number;
  unknown?: boolean | number | null;
  sample?: string | null;
}

/** Times by their length: those of a bucket are above the bound before, up to its own. */
export interface Times {
  /** One more than there are bounds. */
  counts: number[];
  sum_s: number;
}

export interface DoorToken {
  /** Empty: requests without a known token. */
  name: string;
  disabled: boolean;
  events: number;
  bytes: number;
  requests: number;
  /** By code, or by HTTP status from 200 on. */
  answers: Counts;
  last_seen_ms: number | null;
  lag: Times;
  senders: { ip: string; events: number; requests: number }[];
}

export interface Door {
  source: string;
  type: string;
  listeners: string[];
  connections: number;
  connection_errors: number;
  events: number;
  bytes: number;
  lag: Times;
  /** Of a source with requests. */
  requests?: Times;
  senders: { ip: string; events: number; rate: number }[];
  tokens?: DoorToken[];
}

/** `GET /api/v1/doors`. */
export interface Doors {
  at_ms: number;
  bounds_s: number[];
  doors: Door[];
}

/** What damage and rotation have cost a file. */
export interface FileLosses {
  rotated_away_unread_bytes: number;
  /** Files of its name that were deleted before they could be opened. */
  missed_generations: number;
  lines_cut: number;
  partial_flushed: number;
  malformed_lines: number;
  holes_skipped: number;
  truncated: number;
}

export interface ListedFile {
  path: string;
  /** `live`, `watched`, `polled`, `waiting_for_metadata`, `held`, `failed`, `unopened`, `skipped`. */
  state: string;
  /** Of a state that needs one. */
  reason: string | null;
  since_ms: number | null;
  /** Files of this name that were read before. */
  generation: number;
  /** Younger files of this name that wait. */
  waiting: number;
  position: number;
  size: number;
  /** Unread bytes, of those that wait too. */
  lag_bytes: number;
  /** Age of the oldest of them, at most. */
  lag_s: number;
  read_bytes: number;
  /** Events that were joined from several pieces. */
  joined: number;
  losses: FileLosses;
}

/** A reason for which folders or files are polled. */
export interface PollingCause {
  /** `no_watch`, `no_instance`, `file_system`, `permission`, `other`. */
  reason: string;
  words: string;
  since_ms: number;
  folder: string | null;
  files: number;
}

/** Annotation that decided a key. */
export interface PolicyDecision {
  key: string;
  /** Such as `pod`, `Deployment shop`, `namespace`, `enforce`, `configuration`. */
  place: string;
  /** Its name as it was written. */
  annotation: string;
}

/** Policy of one stream of a container. What is absent is that of the source. */
export interface StreamPolicy {
  stream: string;
  index?: string;
  sourcetype?: string;
  to?: string[];
  excluded: boolean;
  rate_bytes?: number;
  decided_by: PolicyDecision[];
}

/** A container whose logs are read, with what the annotations of its owners decide. */
export interface Workload {
  /** Empty, as the names of its pod, for a container of docker alone. */
  namespace: string;
  /** Such as `Deployment shop`; empty if there is none. */
  workload: string;
  pod: string;
  uid: string;
  container: string;
  /** `awaited`, `missing`, `known`, `removed`. */
  metadata: string;
  streams: StreamPolicy[];
  /** Annotations that are ignored, in words. */
  problems: string[];
}

export interface SourceFiles {
  source: string;
  /** Whether or not they are listed. */
  logs: number;
  lag_bytes: number;
  failed: number;
  refused: number;
  polled: number;
  rotated_away_unread_bytes: number;
  /** Files that were deleted before they could be opened. */
  missed_generations: number;
  polling: PollingCause[];
  /** Those that cannot be read, then those with most unread bytes; at most 1,000. */
  files: ListedFile[];
  workloads?: Workload[];
}

/** `GET /api/v1/files`. */
export interface Files {
  at_ms: number;
  sources: SourceFiles[];
}

/** An event as a `file` destination writes it. */
export interface JsonLine {
  time?: string;
  host?: string;
  sourcetype?: string;
  raw?: string;
  [name: string]: unknown;
}

export interface QuarantineEntry {
  id: number;
  destination: string;
  reason: string;
  code: number;
  text: string;
  attempts: number;
  /** RFC 3339. */
  refused: string;
  event: JsonLine;
  raw_base64?: string;
}

/** `GET /api/v1/quarantine`. */
export interface QuarantineList {
  bytes: number;
  bytes_max: number;
  entries: QuarantineEntry[];
  more: boolean;
}

/** `POST /api/v1/quarantine/replay`. */
export interface ReplayReport {
  replayed: number;
  left_behind: number;
  not_configured: number;
  stopped?: string;
}
