// Events of a mixed estate, made from their number alone: the same number gives the same event.

import type { SearchEvent } from "../src/lib/contract";

/** Milliseconds between two events. */
export const STEP_MS = 2_000;

/** A small generator of numbers below 1; the same seed gives the same numbers. */
export function dice(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

interface Made {
  host: string;
  source: string;
  sourcetype: string;
  index: string;
  severity: number;
  facility: number;
  vendor?: string;
  product?: string;
  app?: string;
  proc_id?: string;
  msg_id?: string;
  message: string;
  raw?: string;
  fields?: Record<string, string>;
}

type Maker = (roll: () => number, pick: <T>(list: readonly T[]) => T) => Made;

const ip = (roll: () => number, net: string) => `${net}.${Math.floor(roll() * 254) + 1}`;
const port = (roll: () => number) => String(1024 + Math.floor(roll() * 60000));

const USERS = ["root", "admin", "deploy", "s.meyer", "j.tanaka", "svc-backup"];

const MAKERS: readonly Maker[] = [
  (roll, pick) => {
    const fields = {
      src_ip: ip(roll, "10.20.4"),
      dest_ip: ip(roll, "198.51.100"),
      dest_port: pick(["22", "443", "3389", "445"]),
      action: "blocked",
      acl: "outside_in",
    };
    return {
      host: pick(["fw-edge-1", "fw-edge-2"]),
      source: "syslog",
      sourcetype: "cisco:asa",
      index: "netfw",
      severity: 4,
      facility: 20,
      vendor: "cisco",
      product: "asa",
      msg_id: "ASA-4-106023",
      message: `%ASA-4-106023: Deny tcp src outside:${fields.src_ip}/${port(roll)} dst inside:${fields.dest_ip}/${fields.dest_port} by access-group "outside_in" [0x0, 0x0]`,
      fields,
    };
  },
  (roll, pick) => {
    const bytes = String(Math.floor(roll() * 90000));
    return {
      host: pick(["pa-dc-1", "pa-dc-2"]),
      source: "syslog",
      sourcetype: "pan:traffic",
      index: "netfw",
      severity: 6,
      facility: 16,
      vendor: "paloalto",
      product: "ngfw",
      message: `1,2026/11/22 10:00:00,0123456789,TRAFFIC,end,2562,${ip(roll, "10.1.8")},${ip(roll, "203.0.113")},allow-web,web-browsing,trust,untrust,${bytes}`,
      fields: { action: "allow", app: "web-browsing", rule: "allow-web", bytes },
    };
  },
  (roll, pick) => {
    const user = pick(USERS);
    const src = ip(roll, "192.0.2");
    const pid = String(900 + Math.floor(roll() * 9000));
    const failed = roll() < 0.6;
    return {
      host: pick(["web-01", "web-02", "db-01", "bastion"]),
      source: "syslog",
      sourcetype: "linux_secure",
      index: "oslinux",
      severity: failed ? 5 : 6,
      facility: 10,
      vendor: "openbsd",
      product: "openssh",
      app: "sshd",
      proc_id: pid,
      message: failed
        ? `Failed password for ${user} from ${src} port ${port(roll)} ssh2: access denied`
        : `Accepted publickey for ${user} from ${src} port ${port(roll)} ssh2`,
      fields: { user, src_ip: src, action: failed ? "failure" : "success" },
    };
  },
  (roll, pick) => {
    const status = pick(["200", "200", "200", "304", "404", "502"]);
    const took = String(Math.floor(roll() * roll() * 1800));
    return {
      host: pick(["web-01", "web-02"]),
      source: "pods",
      sourcetype: "nginx:access",
      index: "web",
      severity: status === "502" ? 3 : 6,
      facility: 23,
      vendor: "f5",
      product: "nginx",
      app: "nginx",
      message: `${ip(roll, "203.0.113")} - - "GET /api/orders/${Math.floor(roll() * 9999)} HTTP/2.0" ${status} ${Math.floor(roll() * 5000)} rt=${took}`,
      fields: { status, took_ms: took, method: "GET" },
    };
  },
  (roll, pick) => ({
    host: pick(["dc-01", "dc-02"]),
    source: "hec",
    sourcetype: "XmlWinEventLog",
    index: "oswin",
    severity: 6,
    facility: 13,
    vendor: "microsoft",
    product: "windows",
    app: "Security",
    msg_id: pick(["4624", "4625", "4688"]),
    message: `An account was logged on. Subject: SYSTEM Logon Type: 3 Account: ${pick(USERS)} Source Network Address: ${ip(roll, "10.1.2")}`,
    fields: { logon_type: "3" },
  }),
  (roll, pick) => ({
    host: pick(["fgt-branch-1", "fgt-branch-2", "fgt-branch-3"]),
    source: "syslog",
    sourcetype: "fgt_traffic",
    index: "netfw",
    severity: 5,
    facility: 23,
    vendor: "fortinet",
    product: "fortios",
    message: `devname="FGT" logid="0000000013" type="traffic" subtype="forward" srcip=${ip(roll, "10.99.1")} dstip=${ip(roll, "198.51.100")} action="accept" service="HTTPS" sentbyte=${Math.floor(roll() * 9000)}`,
    fields: { action: "accept", service: "HTTPS" },
  }),
  (_roll, pick) => ({
    host: "10.77.3.9",
    source: "syslog",
    sourcetype: "inrush:unknown",
    index: "main",
    severity: 5,
    facility: 1,
    message: pick(["unit 7 door open", "keepalive seq ok", "temp=41C fan=2200rpm psu=A"]),
  }),
];

/** Sets a global when it runs; the browser test looks for that. */
export const ATTACKS = [
  `<script>window.hacked=1</script>`,
  `<img src=x onerror="window.hacked=1">`,
  `"><svg onload=window.hacked=1>`,
  `javascript:window.hacked=1`,
  `</textarea><iframe srcdoc="<script>parent.hacked=1</script>">`,
  `{{constructor.constructor('window.hacked=1')()}}`,
  `\u202Etxt.exe\u202C \u0000\u001b[31mred\u001b[0m`,
] as const;

/** Every field is an attack. */
function hostile(roll: () => number): Made {
  const attack = () => ATTACKS[Math.floor(roll() * ATTACKS.length)] ?? ATTACKS[0];
  return {
    host: attack(),
    source: attack(),
    sourcetype: attack(),
    index: attack(),
    severity: Math.floor(roll() * 8),
    facility: Math.floor(roll() * 24),
    vendor: attack(),
    product: attack(),
    app: attack(),
    proc_id: attack(),
    msg_id: attack(),
    message: attack(),
    raw: `<13>1 - ${attack()} ${attack()}\n\t${attack()}`,
    // As JSON.parse makes it: an own property, not the prototype.
    fields: JSON.parse(
      `{"__proto__":"polluted","constructor":"x",${JSON.stringify(attack())}:${JSON.stringify(attack())}}`,
    ) as Record<string, string>,
  };
}

/** The event with this number; `everyHostile`: all of them are attacks, else one in forty. */
export function eventOf(number: number, everyHostile = false): SearchEvent {
  const roll = dice(number * 2654435761);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(roll() * list.length)] as T;
  const jitter_ns = Math.floor(roll() * STEP_MS * 1e6);
  const ns = BigInt(number) * BigInt(STEP_MS) * 1_000_000n + BigInt(jitter_ns);
  const made = everyHostile || roll() < 0.025 ? hostile(roll) : pick(MAKERS)(roll, pick);
  const header = `<${made.facility * 8 + made.severity}>`;
  return {
    type: "event",
    id: `e${number}`,
    time_ns: String(ns),
    received_ns: String(ns + 1_200_000n),
    raw: `${header}${new Date(Number(ns / 1_000_000n)).toISOString()} ${made.host} ${made.message}`,
    ...made,
  };
}

export function msOf(event: SearchEvent): number {
  return Number(BigInt(event.time_ns) / 1_000_000n);
}
