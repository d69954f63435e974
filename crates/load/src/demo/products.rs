//! Product table of the demo: thirteen kinds of devices of a made-up company, with hosts and texts.
//!
//! # What it guarantees
//! * All texts were written for this table. Addresses are private or set aside for examples.
//! * A test parses every template and checks names, facilities, severities and weights. The demo
//!   itself would skip a template that it cannot parse.
//! * By weight, one host sends 35 to 50 % of all messages. One host falls silent, one has a wrong
//!   clock, and one sends no syslog header.
//!
//! # Limits
//! A weight is a share: of a host among all hosts, of a line among those of its product.
//! A host's number is one byte (`127.0.1.N`), so the table must stay below 254 hosts.

/// Header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SyslogHeader {
    /// `<134>Nov 22 13:05:09 host tag` and the text, in the sender's local time.
    Rfc3164(&'static str),
    /// `<134>1 2026-11-22T13:05:09.123456+01:00 host app 4711 msgid - ` and the text.
    Rfc5424 {
        app: &'static str,
        msg_id: &'static str,
    },
    /// `<134>` and the text, as firewalls do that write `key=value`.
    Priority,
    /// `<134>4711: host: Nov 22 13:05:09.123: ` and the text, as switches write it.
    Numbered,
    /// The text alone: a device that does not speak syslog.
    Nothing,
}

/// Transport and framing of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WireFraming {
    /// A datagram each.
    Udp,
    /// Over TCP, with a line feed behind each.
    Lines,
    /// Over TCP, with its length before each.
    Octets,
}

/// Oddity of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Habit {
    Steady,
    /// It says nothing for most of the time: see [`super::day::is_silent`].
    FallsSilent,
    /// Its clock is so many seconds ahead.
    ClockAhead(i32),
}

pub(super) struct DemoHost {
    pub(super) name: &'static str,
    /// Its share of all messages is this over the sum of all.
    pub(super) weight: u32,
    pub(super) habit: Habit,
}

pub(super) struct WeightedText {
    /// Its share of the product's messages is this over the sum of them.
    pub(super) weight: u32,
    pub(super) severity: u8,
    pub(super) text: &'static str,
}

pub(super) struct DemoProduct {
    /// The facility of RFC 5424, 0 to 23.
    pub(super) facility: u8,
    pub(super) header: SyslogHeader,
    pub(super) wire: WireFraming,
    pub(super) hosts: &'static [DemoHost],
    pub(super) lines: &'static [WeightedText],
}

const fn host(name: &'static str, weight: u32) -> DemoHost {
    let habit = Habit::Steady;
    DemoHost {
        name,
        weight,
        habit,
    }
}

const fn odd(name: &'static str, weight: u32, habit: Habit) -> DemoHost {
    DemoHost {
        name,
        weight,
        habit,
    }
}

const fn line(weight: u32, severity: u8, text: &'static str) -> WeightedText {
    WeightedText {
        weight,
        severity,
        text,
    }
}

const fn rfc5424(app: &'static str, msg_id: &'static str) -> SyslogHeader {
    SyslogHeader::Rfc5424 { app, msg_id }
}

/// A firewall at the edge, in the manner of a Cisco ASA.
const EDGE: DemoProduct = DemoProduct {
    facility: 20,
    header: SyslogHeader::Rfc3164(""),
    wire: WireFraming::Udp,
    hosts: &[host("fw-edge-1", 90), host("fw-edge-2", 40)],
    lines: &[
        line(
            40,
            6,
            "%ASA-6-302013: Built outbound TCP connection $(1000000-9999999) for outside:$(ext)/$(port) ($(ext)/$(port)) to inside:$(int)/$(high) (198.51.100.4/$(high))",
        ),
        line(
            38,
            6,
            "%ASA-6-302014: Teardown TCP connection $(1000000-9999999) for outside:$(ext)/$(port) to inside:$(int)/$(high) duration 0:00:$(10-59) bytes $(200-900000) TCP FINs",
        ),
        line(
            14,
            6,
            "%ASA-6-302015: Built outbound UDP connection $(1000000-9999999) for outside:$(ext)/53 ($(ext)/53) to inside:$(int)/$(high) (198.51.100.4/$(high))",
        ),
        line(
            9,
            4,
            "%ASA-4-106023: Deny tcp src outside:$(ext)/$(high) dst inside:$(int)/$(port) by access-group \"outside_in\" [0x$(hex 8), 0x0]",
        ),
        line(
            2,
            3,
            "%ASA-3-710003: TCP access denied by ACL from $(ext)/$(high) to outside:198.51.100.4/22",
        ),
        line(
            1,
            5,
            "%ASA-5-111008: User '$(user)' executed the 'show running-config' command.",
        ),
    ],
};

/// Firewalls of branches, in the manner of a FortiGate.
const BRANCH: DemoProduct = DemoProduct {
    facility: 23,
    header: SyslogHeader::Priority,
    wire: WireFraming::Udp,
    hosts: &[
        host("fw-branch-1", 26),
        host("fw-branch-2", 22),
        host("fw-branch-3", 14),
    ],
    lines: &[
        line(
            30,
            5,
            "date=$(date) time=$(clock) devname=\"$(host)\" devid=\"FGT60EXAMPLE0001\" logid=\"0000000013\" type=\"traffic\" subtype=\"forward\" level=\"notice\" srcip=$(int) srcport=$(high) dstip=$(ext) dstport=$(port) proto=6 action=\"accept\" policyid=$(1-20) service=\"HTTPS\" user=\"$(user)\" sentbyte=$(100-90000) rcvdbyte=$(100-900000) duration=$(1-300)",
        ),
        line(
            8,
            4,
            "date=$(date) time=$(clock) devname=\"$(host)\" devid=\"FGT60EXAMPLE0001\" logid=\"0000000013\" type=\"traffic\" subtype=\"forward\" level=\"warning\" srcip=$(int) srcport=$(high) dstip=$(ext) dstport=$(port) proto=6 action=\"deny\" policyid=0 service=\"$(RDP|SMB|SSH|TELNET)\"",
        ),
        line(
            3,
            4,
            "date=$(date) time=$(clock) devname=\"$(host)\" devid=\"FGT60EXAMPLE0001\" logid=\"0316013056\" type=\"utm\" subtype=\"webfilter\" level=\"warning\" srcip=$(int) user=\"$(user)\" hostname=\"$(domain)\" url=\"/$(path)\" action=\"blocked\" catdesc=\"$(Gambling|Phishing|Malware|Newly registered)\"",
        ),
    ],
};

/// The firewall of the data centre, with values between commas.
const CENTRE: DemoProduct = DemoProduct {
    facility: 16,
    header: SyslogHeader::Rfc3164(""),
    wire: WireFraming::Lines,
    hosts: &[host("fw-dc-1", 60)],
    lines: &[
        line(
            30,
            6,
            "1,$(date) $(clock),0011EXAMPLE,TRAFFIC,end,2561,$(date) $(clock),$(int),$(ext),198.51.100.9,$(ext),allow-web,corp\\$(user),,$(ssl|web-browsing|dns|ms-update),vsys1,trust,untrust,ethernet1/2,ethernet1/1,default,$(10000-99999),1,$(high),$(port),$(high),$(port),0x$(hex 6),tcp,allow,$(500-90000)",
        ),
        line(
            4,
            4,
            "1,$(date) $(clock),0011EXAMPLE,THREAT,url,2561,$(date) $(clock),$(int),$(ext),198.51.100.9,$(ext),block-bad,corp\\$(user),,web-browsing,vsys1,trust,untrust,ethernet1/2,ethernet1/1,default,$(10000-99999),1,$(high),$(port),$(high),$(port),0x$(hex 6),tcp,block-url,\"$(domain)/$(path)\"",
        ),
        line(
            1,
            5,
            "1,$(date) $(clock),0011EXAMPLE,CONFIG,0,2561,$(date) $(clock),$(int),,commit,$(user),Web,Succeeded,,,$(1000-9999)",
        ),
    ],
};

/// The proxy of the office, in the manner of Squid.
const PROXY: DemoProduct = DemoProduct {
    facility: 18,
    header: SyslogHeader::Rfc3164("squid[1207]: "),
    wire: WireFraming::Lines,
    hosts: &[host("proxy-1", 55), host("proxy-2", 48)],
    lines: &[
        line(
            30,
            6,
            "$(epoch).$(100-999) $(3-900) $(int) $(TCP_MISS|TCP_HIT|TCP_MEM_HIT|TCP_REFRESH_UNMODIFIED)/200 $(300-80000) GET http://$(domain)/$(path) $(user) HIER_DIRECT/$(ext) $(text/html|text/css|image/png|application/json)",
        ),
        line(
            22,
            6,
            "$(epoch).$(100-999) $(200-60000) $(int) TCP_TUNNEL/200 $(3000-900000) CONNECT $(domain):443 $(user) HIER_DIRECT/$(ext) -",
        ),
        line(
            4,
            4,
            "$(epoch).$(100-999) $(0-2) $(int) TCP_DENIED/403 3977 CONNECT $(domain):443 $(user) HIER_NONE/- text/html",
        ),
    ],
};

/// Gateway at which people come in from home.
const VPN: DemoProduct = DemoProduct {
    facility: 3,
    header: SyslogHeader::Rfc3164("openvpn[844]: "),
    wire: WireFraming::Udp,
    hosts: &[host("vpn-1", 9), host("vpn-2", 7)],
    lines: &[
        line(
            6,
            5,
            "$(user)/$(ext):$(high) peer info: IV_PLAT=$(win|mac|linux|android|ios)",
        ),
        line(
            6,
            5,
            "$(user)/$(ext):$(high) MULTI: primary virtual IP for $(user)/$(ext):$(high): 10.8.0.$(2-250)",
        ),
        line(
            3,
            4,
            "$(ext):$(high) TLS Auth Error: Auth Username/Password verification failed for peer '$(who)'",
        ),
        line(
            2,
            5,
            "$(user)/$(ext):$(high) SIGTERM[soft,remote-exit] received, client-instance exiting",
        ),
    ],
};

/// Domain controllers, by an agent that writes JSON.
const WINDOWS: DemoProduct = DemoProduct {
    facility: 10,
    header: rfc5424("Microsoft-Windows-Security-Auditing", "-"),
    wire: WireFraming::Octets,
    hosts: &[host("dc-1", 50), host("dc-2", 44)],
    lines: &[
        line(
            30,
            6,
            "{\"EventTime\":\"$(time)\",\"Hostname\":\"$(host).corp.example\",\"EventID\":4624,\"Channel\":\"Security\",\"TargetUserName\":\"$(user)\",\"TargetDomainName\":\"CORP\",\"LogonType\":$(2|3|3|3|10),\"IpAddress\":\"$(int)\",\"IpPort\":\"$(high)\",\"Message\":\"An account was logged on.\"}",
        ),
        line(
            22,
            6,
            "{\"EventTime\":\"$(time)\",\"Hostname\":\"$(host).corp.example\",\"EventID\":4634,\"Channel\":\"Security\",\"TargetUserName\":\"$(user)\",\"LogonType\":3,\"Message\":\"An account was logged off.\"}",
        ),
        line(
            9,
            6,
            "{\"EventTime\":\"$(time)\",\"Hostname\":\"$(host).corp.example\",\"EventID\":4688,\"Channel\":\"Security\",\"SubjectUserName\":\"$(user)\",\"NewProcessName\":\"C:\\\\Windows\\\\System32\\\\$(cmd.exe|svchost.exe|whoami.exe|net.exe)\",\"Message\":\"A process was created.\"}",
        ),
        line(
            5,
            4,
            "{\"EventTime\":\"$(time)\",\"Hostname\":\"$(host).corp.example\",\"EventID\":4625,\"Channel\":\"Security\",\"TargetUserName\":\"$(who)\",\"LogonType\":3,\"IpAddress\":\"$(int)\",\"Status\":\"0xc000006d\",\"Message\":\"An account could not be logged on.\"}",
        ),
        line(
            1,
            3,
            "{\"EventTime\":\"$(time)\",\"Hostname\":\"$(host).corp.example\",\"EventID\":4740,\"Channel\":\"Security\",\"TargetUserName\":\"$(user)\",\"Message\":\"An account was locked out.\"}",
        ),
    ],
};

/// Logins on servers.
const SSHD: DemoProduct = DemoProduct {
    facility: 10,
    header: SyslogHeader::Rfc3164("sshd[3127]: "),
    wire: WireFraming::Udp,
    hosts: &[host("db-1", 5), host("bastion-1", 16)],
    lines: &[
        line(
            4,
            6,
            "Accepted publickey for $(user) from $(int) port $(high) ssh2: ED25519 SHA256:$(hex 43)",
        ),
        line(
            12,
            6,
            "Failed password for invalid user $(who) from $(ext) port $(high) ssh2",
        ),
        line(
            6,
            6,
            "Connection closed by invalid user $(who) $(ext) port $(high) [preauth]",
        ),
        line(
            4,
            6,
            "pam_unix(sshd:session): session $(opened|closed) for user $(user)(uid=$(1001-1024)) by $(user)(uid=0)",
        ),
        line(
            1,
            3,
            "error: maximum authentication attempts exceeded for $(who) from $(ext) port $(high) ssh2 [preauth]",
        ),
    ],
};

/// Name servers; the first of them says more than all others together.
const DNS: DemoProduct = DemoProduct {
    facility: 3,
    header: SyslogHeader::Rfc3164("named[611]: "),
    wire: WireFraming::Udp,
    hosts: &[host("ns-1", 640), host("ns-2", 60)],
    lines: &[
        line(
            60,
            6,
            "client @0x7f$(hex 10) $(int)#$(high) ($(domain)): query: $(domain) IN $(A|A|A|AAAA|HTTPS|TXT) +E(0)K (10.20.0.53)",
        ),
        line(
            2,
            4,
            "client @0x7f$(hex 10) $(int)#$(high) ($(domain)): query (cache) '$(domain)/A/IN' denied",
        ),
        line(1, 5, "resolver priming query complete: success"),
    ],
};

/// An intrusion detection that writes JSON. It falls silent now and then.
const IDS: DemoProduct = DemoProduct {
    facility: 13,
    header: rfc5424("suricata", "-"),
    wire: WireFraming::Octets,
    hosts: &[odd("ids-1", 34, Habit::FallsSilent)],
    lines: &[
        line(
            20,
            6,
            "{\"timestamp\":\"$(time)\",\"event_type\":\"flow\",\"src_ip\":\"$(int)\",\"src_port\":$(high),\"dest_ip\":\"$(ext)\",\"dest_port\":$(port),\"proto\":\"TCP\",\"flow\":{\"pkts_toserver\":$(3-80),\"pkts_toclient\":$(2-120),\"state\":\"closed\"}}",
        ),
        line(
            14,
            6,
            "{\"timestamp\":\"$(time)\",\"event_type\":\"tls\",\"src_ip\":\"$(int)\",\"dest_ip\":\"$(ext)\",\"dest_port\":443,\"tls\":{\"sni\":\"$(domain)\",\"version\":\"TLS 1.3\"}}",
        ),
        line(
            3,
            4,
            "{\"timestamp\":\"$(time)\",\"event_type\":\"alert\",\"src_ip\":\"$(ext)\",\"src_port\":$(high),\"dest_ip\":\"$(int)\",\"dest_port\":$(port),\"proto\":\"TCP\",\"alert\":{\"action\":\"$(allowed|blocked)\",\"signature_id\":$(9000000-9000040),\"signature\":\"DEMO $(scan of a port|login by guessing|known bad certificate|command in a query)\",\"severity\":$(1-3)}}",
        ),
    ],
};

/// Web servers.
const WEB: DemoProduct = DemoProduct {
    facility: 17,
    header: SyslogHeader::Rfc3164("nginx: "),
    wire: WireFraming::Lines,
    hosts: &[host("web-1", 70), host("web-2", 66), host("web-3", 61)],
    lines: &[
        line(
            40,
            6,
            "$(ext) - - [$(clf)] \"GET /$(path) HTTP/2.0\" 200 $(200-60000) \"https://www.example.com/\" \"Mozilla/5.0 ($(X11; Linux x86_64|Windows NT 10.0; Win64; x64|Macintosh))\" 0.$(100-999)",
        ),
        line(
            8,
            6,
            "$(ext) - $(user) [$(clf)] \"POST /$(path) HTTP/2.0\" $(200|201|302|401) $(20-900) \"-\" \"Mozilla/5.0\" 0.$(100-999)",
        ),
        line(
            5,
            6,
            "$(ext) - - [$(clf)] \"GET /$(wp-login.php|.env|.git/config|phpinfo.php) HTTP/1.1\" 404 153 \"-\" \"$(curl/8.5.0|python-requests/2.32|zgrab/0.x)\" 0.001",
        ),
        line(
            1,
            3,
            "$(ext) - - [$(clf)] \"GET /$(path) HTTP/2.0\" 502 157 \"-\" \"Mozilla/5.0\" 60.$(100-999)",
        ),
    ],
};

/// Switches.
const SWITCH: DemoProduct = DemoProduct {
    facility: 23,
    header: SyslogHeader::Numbered,
    wire: WireFraming::Udp,
    hosts: &[
        host("sw-core-1", 6),
        host("sw-floor-2", 4),
        host("sw-floor-3", 4),
    ],
    lines: &[
        line(
            6,
            3,
            "%LINK-3-UPDOWN: Interface GigabitEthernet1/0/$(1-48), changed state to $(up|down)",
        ),
        line(
            6,
            5,
            "%LINEPROTO-5-UPDOWN: Line protocol on Interface GigabitEthernet1/0/$(1-48), changed state to $(up|down)",
        ),
        line(
            3,
            5,
            "%SYS-5-CONFIG_I: Configured from console by $(user) on vty0 ($(int))",
        ),
        line(
            2,
            4,
            "%SW_MATM-4-MACFLAP_NOTIF: Host $(hex 4).$(hex 4).$(hex 4) in vlan $(10-40) is flapping between port Gi1/0/$(1-24) and port Gi1/0/$(25-48)",
        ),
    ],
};

/// A storage array whose clock is eleven minutes ahead.
const STORAGE: DemoProduct = DemoProduct {
    facility: 16,
    header: rfc5424("storaged", "VOLUME"),
    wire: WireFraming::Udp,
    hosts: &[odd("nas-1", 12, Habit::ClockAhead(11 * 60))],
    lines: &[
        line(
            12,
            6,
            "volume vol$(1-6) snapshot hourly.$(date)-$(10-23) created in $(20-900) ms",
        ),
        line(
            8,
            6,
            "share projects: $(user) from $(int) opened $(reports|plans|drawings)/$(2019-2026)/file-$(100-999).$(docx|xlsx|pdf|dwg)",
        ),
        line(3, 4, "volume vol$(1-6) is $(85-97) % full"),
        line(
            1,
            3,
            "disk in bay $(1-24) reports $(5-40) reallocated sectors; replace it soon",
        ),
    ],
};

/// A thermometer that sends whatever it likes.
const THERMOMETER: DemoProduct = DemoProduct {
    facility: 1,
    header: SyslogHeader::Nothing,
    wire: WireFraming::Udp,
    hosts: &[host("thermometer", 3)],
    lines: &[line(
        1,
        6,
        "T=$(18-24).$(0-9)C;RH=$(35-55)%;BAT=3.$(0-3)V;N=$(1-9999)",
    )],
};

/// All of them.
pub(super) const ALL: [&DemoProduct; 13] = [
    &EDGE,
    &BRANCH,
    &CENTRE,
    &PROXY,
    &VPN,
    &WINDOWS,
    &SSHD,
    &DNS,
    &IDS,
    &WEB,
    &SWITCH,
    &STORAGE,
    &THERMOMETER,
];
