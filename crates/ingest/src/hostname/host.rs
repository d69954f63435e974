//! Rules for the names of hosts.

/// Bytes of a name, at most: RFC 1035 section 2.3.4.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// True if it can be the name of a host: letters, digits, `-`, `_` and dots, with a letter among
/// them. `localhost` is none: every host calls itself so.
pub(super) fn is_name(text: &[u8]) -> bool {
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let first = text.split(|byte| *byte == b'.').next().unwrap_or_default();
    text.len() <= NAME_BYTES_MAX
        && text.iter().all(known)
        && text.iter().any(u8::is_ascii_alphabetic)
        && !first.is_empty()
        && !first.eq_ignore_ascii_case(b"localhost")
}

/// True if a host is no name: it is empty, `-`, or written as an address. The rule for addresses is
/// that of a table of hosts (digits and dots, or hexadecimal digits and colons).
pub(super) fn is_nameless(host: &[u8]) -> bool {
    let four = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let six = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    host.iter().all(four) || host == b"-" || host.contains(&b':') && host.iter().all(six)
}

/// True if two names can be one host's: they are the same but for their case, or one is the first
/// part of the other.
pub(super) fn is_same_host(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() <= other.len() {
        (one, other)
    } else {
        (other, one)
    };
    let Some((head, tail)) = long.split_at_checked(short.len()) else {
        return false;
    };
    head.eq_ignore_ascii_case(short)
        && (tail.is_empty() || tail.starts_with(b".") && !short.contains(&b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_can_be_called() {
        for name in ["fw1", "FW-1.example.com", "a_b", "1a", "cafe"] {
            assert!(is_name(name.as_bytes()), "{name}");
            assert!(!is_nameless(name.as_bytes()), "{name}");
        }
        let long = "a".repeat(256);
        let odd = [
            "",
            "-",
            ".",
            ".a",
            "192.0.2.1",
            "12",
            "a b",
            "a\"b",
            "a\n",
            "\u{e9}",
            "LocalHost",
            "localhost.localdomain",
            &long,
        ];
        for name in odd {
            assert!(!is_name(name.as_bytes()), "{name}");
        }
        assert!(is_name(&long.as_bytes()[1..]));
    }

    #[test]
    fn what_says_nothing_but_where() {
        for host in [
            "",
            "-",
            "192.0.2.1",
            "2001:db8::1",
            "::",
            "::ffff:192.0.2.1",
        ] {
            assert!(is_nameless(host.as_bytes()), "{host}");
        }
        for host in ["fw1", "localhost", "dead", "--", "a:b:z", "192.0.2.x"] {
            assert!(!is_nameless(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn a_name_and_its_first_part_are_one_host() {
        for (one, other) in [
            ("fw1", "FW1"),
            ("fw1", "fw1.example.com"),
            ("Fw1.x", "fw1.X"),
        ] {
            assert!(is_same_host(one.as_bytes(), other.as_bytes()));
            assert!(is_same_host(other.as_bytes(), one.as_bytes()));
        }
        for (one, other) in [
            ("fw1", "fw2"),
            ("fw1", "fw10"),
            ("fw1.a", "fw1.b"),
            ("fw1.a", "fw1.a.b"),
        ] {
            assert!(!is_same_host(one.as_bytes(), other.as_bytes()));
            assert!(!is_same_host(other.as_bytes(), one.as_bytes()));
        }
    }
}
