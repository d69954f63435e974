// A running Inrush that is none: every counter is a function of the time, so that snapshots agree
// with each other and nothing has to tick.

import type {
  Alarm,
  Counts,
  Doors,
  DoorToken,
  Files,
  Flow,
  FlowDestination,
  FlowLoss,
  FlowSource,
  QuarantineEntry,
  Sender,
  Times,
} from "../src/lib/contract";
import { ATTACKS, dice } from "./events";
import { filesOf } from "./world-files";

export interface Mood {
  /** No loss, no alarm. */
  calm: boolean;
  /** Every text is an attack. */
  hostile: boolean;
  /** Nothing was ever received. */
  empty: boolean;
}

/** How long it has been running. */
const AGE_MS = 3 * 86_400_000 + 5 * 3_600_000;

/** The sum of a rate that swings by a third around `perSecond`, over `seconds`. */
function swing(perSecond: number, seconds: number, period: number): number {
  const w = (2 * Math.PI) / period;
  return Math.floor(perSecond * (seconds - (0.33 * (Math.cos(w * seconds) - 1)) / w));
}

const DOOR_LISTENERS: Record<string, string[]> = {
  syslog: ["udp://0.0.0.0:5514", "tcp://0.0.0.0:5514", "tls://0.0.0.0:6514"],
  splunk_hec: ["https://0.0.0.0:8088"],
};

export class World {
  readonly #started_ms = Date.now() - AGE_MS;
  readonly #mood: Mood;

  constructor(mood: Mood) {
    this.#mood = mood;
  }

  #text(plain: string, number = 0): string {
    return this.#mood.hostile ? (ATTACKS[number % ATTACKS.length] ?? plain) : plain;
  }

  flow(now_ms = Date.now()): Flow {
    const { calm, empty } = this.#mood;
    const seconds = empty ? 0 : (now_ms - this.#started_ms) / 1000;
    const sources = this.#sources(seconds);
    const total = sources.reduce((n, one) => n + one.accepted, 0);
    const filtered = Math.floor(total * 0.02);
    const destinations = this.#destinations(total - filtered, seconds);
    return {
      at_ms: now_ms,
      version: "0.1.0",
      started_ms: this.#started_ms,
      balanced: true,
      sources,
      filtered: calm || empty ? {} : { [this.#text("debug from asa", 3)]: filtered },
      destinations,
      edges: sources.flatMap((source) =>
        destinations.map(({ name }) => ({ from: source.name, to: name, events: source.accepted })),
      ),
      queue: {
        bytes: 41e6 + 9e6 * Math.sin(seconds / 9),
        bytes_max: 256 * 2 ** 20,
        disk_bytes: calm ? 0.2e9 : 5.1e9 + (seconds % 3600) * 1e5,
        disk_bytes_max: 16 * 2 ** 30,
        segments: calm ? 4 : 81,
        stall: null,
        full_in_s: calm ? null : 9_400,
      },
      threads: this.#threads(seconds),
      loss: this.#loss(seconds),
      alarms: calm ? [] : this.#alarms(now_ms),
    };
  }

  #sources(seconds: number): FlowSource[] {
    const { calm } = this.#mood;
    const one = (
      name: string,
      type: string,
      perSecond: number,
      period: number,
      n: number,
    ): FlowSource => {
      const received = swing(perSecond, seconds, period);
      const bad = calm || type !== "syslog" ? 0 : Math.min(received, 17);
      return {
        name: this.#text(name, n),
        type,
        received,
        accepted: received - bad,
        held: calm || type !== "syslog" ? 0 : 3,
        rejected: bad > 0 ? { too_long: bad } : ({} as Record<string, number>),
        kernel_dropped: calm || type !== "syslog" ? 0 : Math.floor(seconds * 3),
        bytes: received * 310,
        connections: Math.floor(perSecond / 300),
      };
    };
    return [
      one("syslog", "syslog", 18_400, 47, 0),
      one("hec", "splunk_hec", 6_200, 31, 1),
      one("pods", "file", 900, 73, 2),
    ];
  }

  #destinations(accepted: number, seconds: number): FlowDestination[] {
    const { calm, empty } = this.#mood;
    const waits = (base: number) => (empty ? 0 : Math.floor(base * (1.2 + Math.sin(seconds / 7))));
    const one = (name: string, type: string, pending: number, n: number): FlowDestination => ({
      name: this.#text(name, n),
      type,
      accepted,
      delivered: accepted - pending,
      pending,
      quarantined: {},
      dropped: {},
      oldest_pending_ms: empty ? 0 : 40 + 25 * Math.sin(seconds / 5),
      request_ms: empty ? null : 12 + 6 * Math.sin(seconds / 4),
      state: "ok",
    });
    const splunk = one("splunk", "splunk_hec", calm ? waits(800) : waits(90_000), 3);
    if (!calm && !empty) {
      const [refused, dropped] = [312, 41];
      Object.assign(splunk, {
        state: "retrying",
        error: this.#text("503 Server is busy (indexer queue is full), tried again in 4 s", 1),
        oldest_pending_ms: 184_000 + 1000 * (seconds % 60),
        request_ms: 1_430 + 300 * Math.sin(seconds / 3),
        quarantined: { invalid_event: refused },
        dropped: { expired: dropped },
        delivered: splunk.delivered - refused - dropped,
      });
    }
    const local = one("local", "store", waits(900), 0);
    local.stored = {
      searchable: Math.floor(local.delivered * 0.6),
      in_memory: local.pending,
      expired: { age: local.delivered - Math.floor(local.delivered * 0.6), room: calm ? 0 : 2_000 },
      unreadable: calm ? 0 : 150,
    };
    return [
      local,
      splunk,
      one("bus", "kafka", waits(300), 4),
      one("archive", "file", waits(120), 5),
    ];
  }

  #threads(seconds: number) {
    const cpu = (base: number, i: number) => ({
      cpu_percent: Math.max(0.1, base * (1 + 0.25 * Math.sin(seconds / 6 + i))),
    });
    return [
      { name: "udp-syslog", ...cpu(31, 0) },
      { name: "stream-0", ...cpu(44, 1) },
      { name: "stream-1", ...cpu(41, 2) },
      { name: "queue", ...cpu(12, 3) },
      { name: "to-local", ...cpu(58, 4) },
      { name: "to-splunk", ...cpu(9, 5) },
      { name: "to-bus", ...cpu(7, 6) },
      { name: "inrush-admin", ...cpu(0.6, 7) },
    ];
  }

  #loss(seconds: number): FlowLoss[] {
    const { calm, empty } = this.#mood;
    const n = (count: number) => (calm || empty ? 0 : count);
    return [
      { place: "nic", label: this.#text("eth0 rx_dropped", 2), count: n(0), ours: false },
      {
        place: "softnet",
        label: "softnet dropped",
        count: n(214),
        ours: false,
        hint: this.#text("Raise net.core.netdev_max_backlog: `inrush doctor --apply` does it", 1),
      },
      {
        place: "socket",
        label: this.#text("syslog udp receive buffer", 0),
        count: n(Math.floor(seconds * 3)),
        ours: true,
        hint: "Raise net.core.rmem_max to 64 MiB, or give the source more sockets",
      },
      {
        place: "frame",
        label: "too long",
        count: n(17),
        ours: true,
        hint: "Raise max_message_bytes of the source syslog",
      },
      { place: "filter", label: this.#text("debug from asa", 3), count: n(91_422), ours: true },
      { place: "queue", label: "dropped when full", count: 0, ours: true },
      {
        place: "destination",
        label: "splunk: expired",
        count: n(41),
        ours: true,
        hint: "Its events waited longer than max_age",
      },
    ];
  }

  #alarms(now_ms: number): Alarm[] {
    return [
      {
        id: "destination/splunk",
        severity: "critical",
        what: this.#text("splunk takes nothing", 1),
        since_ms: now_ms - 184_000,
        cause: this.#text("Its indexers answer 503: their queues are full.", 2),
        remedy: this.#text(
          "Look at the indexers' queues. Nothing is lost: events wait on disk, which lasts 2 h 36 min.",
          0,
        ),
        link: this.#mood.hostile ? "javascript:window.hacked=1" : "#/flow",
      },
      {
        id: "loss/socket",
        severity: "warning",
        what: this.#text("The kernel drops datagrams of syslog", 3),
        since_ms: now_ms - 86_400_000,
        cause: "The receive buffer is 208 KiB, smaller than a burst.",
        remedy: "sysctl -w net.core.rmem_max=67108864, or `inrush doctor --apply`.",
        link: "docs/guides/udp-loss.md#what-to-do",
      },
    ];
  }

  doors(now_ms = Date.now()): Doors {
    const { calm, empty } = this.#mood;
    const seconds = empty ? 0 : (now_ms - this.#started_ms) / 1000;
    // 20 bounds; a share of the times is late.
    const bounds_s = [
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
      3600, 86_400,
    ];
    const times = (n: number, usual: number, late: number): Times => {
      const counts = bounds_s.map(() => 0).concat(0);
      const slow = calm ? 0 : Math.floor(n / 20);
      counts[usual] = n - slow;
      counts[late] = slow;
      return { counts, sum_s: n * 0.01 };
    };
    const token = (name: string, perSecond: number, i: number): DoorToken => {
      const events = swing(perSecond, seconds, 20 + i);
      const requests = Math.floor(events / 50);
      const busy = calm ? 0 : Math.floor(requests / 400);
      const answers: Counts = events > 0 ? { 0: requests - busy } : {};
      if (busy > 0) {
        answers[9] = busy;
      }
      return {
        name: this.#text(name, i),
        disabled: name === "old",
        events,
        bytes: events * 1024,
        requests,
        answers,
        last_seen_ms: events > 0 ? now_ms - 300 : null,
        lag: times(events, 6, 16),
        senders: [0, 1, 2].map((n) => ({
          ip: `10.9.${i}.${n + 4}`,
          events: Math.floor(events / (n + 2)),
          requests: Math.floor(requests / (n + 2)),
        })),
      };
    };
    const nobody = { ...token("", 0, 9), answers: (calm ? {} : { 4: 1_204, 17: 88 }) as Counts };
    const tokens = [
      token("pods", 5_100, 1),
      token("firewalls", 900, 2),
      token("apps", 200, 3),
      token("old", 0, 4),
      ...(calm ? [] : [{ ...nobody, name: "", requests: 1_292, senders: [] }]),
    ];
    const hosts = (n: number, net: number) =>
      Array.from({ length: empty ? 0 : n }, (_, i) => ({
        ip: `10.${net}.0.${i + 7}`,
        events: Math.floor((seconds * 900) / (i + 1)),
        rate: 900 / (i + 1),
      }));
    return {
      at_ms: now_ms,
      bounds_s,
      doors: this.#sources(seconds).map((one, i) => ({
        source: one.name,
        type: one.type,
        listeners: DOOR_LISTENERS[one.type] ?? [],
        connections: one.connections,
        connection_errors: calm ? 0 : i * 3,
        events: one.received,
        bytes: one.bytes,
        lag: times(one.received, 7, 12),
        senders: hosts(i === 2 ? 0 : 4, i + 1),
        ...(one.type === "splunk_hec"
          ? { requests: times(Math.floor(one.received / 50), 3, 10), tokens }
          : {}),
      })),
    };
  }

  files(now_ms = Date.now()): Files {
    const { calm, empty } = this.#mood;
    const seconds = (now_ms - this.#started_ms) / 1000;
    const text = (plain: string, number: number) => this.#text(plain, number);
    const swung = (perSecond: number, period: number) => swing(perSecond, seconds, period);
    return filesOf({ calm, empty, text, swing: swung }, now_ms);
  }

  senders(now_ms = Date.now()): Sender[] {
    if (this.#mood.empty) {
      return [];
    }
    const names = [
      "cisco:asa",
      "pan:traffic",
      "linux_secure",
      "nginx:access",
      "XmlWinEventLog",
      "fgt_traffic",
    ];
    return Array.from({ length: 48 }, (_, i): Sender => {
      const roll = dice(i * 7919);
      const unknown = i % 16 === 5;
      const silent_s = i % 19 === 3 ? 4_000 + 9_000 * roll() : null;
      const events = Math.floor(1e6 * roll() * roll());
      const last_ms = now_ms - (silent_s === null ? 900 * roll() : silent_s * 1000);
      const first_ms = this.#started_ms + 3.6e6 * roll();
      return {
        ip: `10.${Math.floor(i / 16)}.${i % 16}.${1 + Math.floor(roll() * 250)}`,
        source: i % 3 === 0 ? "hec" : "syslog",
        events,
        bytes: events * 290,
        first_seen_ns: Math.floor(first_ms * 1e6),
        last_seen_ns: Math.floor(last_ms * 1e6),
        first_seen_ms: first_ms,
        last_seen_ms: last_ms,
        rate: silent_s === null ? 900 * roll() * roll() : 0,
        silent_s,
        clock_skew_ms: i % 9 === 4 ? 3_612_000 : (roll() - 0.5) * 900,
        zone_guessed: i % 9 === 5 ? "-05:00" : null,
        format: unknown ? "unparsed" : i % 2 === 0 ? "rfc3164" : "rfc5424",
        recognised: unknown ? [] : [this.#text(names[i % names.length] ?? "", i)],
        unrecognised: unknown ? (i % 2 === 0 ? events : Math.ceil(events / 3)) : 0,
        unknown,
        sample: this.#text(
          unknown
            ? "<13>unit 7 door open temp=41C"
            : "<164>%ASA-4-106023: Deny tcp src outside:10.20.4.9/4431 dst inside:198.51.100.7/22",
          i,
        ),
      };
    });
  }

  quarantine(): QuarantineEntry[] {
    if (this.#mood.calm || this.#mood.empty) {
      return [];
    }
    return Array.from({ length: 37 }, (_, i): QuarantineEntry => {
      const large = i % 5 === 4;
      return {
        id: 100 + i,
        destination: i % 7 === 6 ? "bus" : "splunk",
        reason: large ? "too_large" : "invalid_event",
        code: large ? 413 : 6,
        text: this.#text(large ? "larger than max_content_length" : "Invalid data format", i),
        attempts: 1 + (i % 3),
        refused: new Date(Date.now() - 60_000 * (40 - i)).toISOString(),
        event: {
          time: new Date(Date.now() - 60_000 * (41 - i)).toISOString(),
          host: this.#text("app-07", i),
          sourcetype: "app:json",
          raw: this.#text(`<14>app-07 worker[${i}]: {"order": ${i}, "state": "\\ud83d`, i + 2),
        },
      };
    });
  }
}
