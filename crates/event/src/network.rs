//! Networks of IP addresses, as options and rules name them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::text_option;

/// A network: an address and the bits that count. An IPv4 network also holds its addresses in
/// their IPv4-mapped form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Network {
    ip: IpAddr,
    bits: u32,
}

/// A text that is no network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkError(String);

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let examples = "10.0.0.0/8, 2001:db8::/32 or 192.0.2.7";
        write!(
            f,
            "`{}` is no network; write for example {examples}",
            self.0
        )
    }
}

impl std::error::Error for NetworkError {}

impl Network {
    /// Reads `10.0.0.0/8`, `2001:db8::/32` or an address alone.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let ip: IpAddr = address.parse().ok()?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { ip, bits })
    }

    /// True if the address lies in it.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let offset = if self.ip.is_ipv4() { 96 } else { 0 };
        let mask = u128::MAX
            .checked_shl(128 - (self.bits + offset))
            .unwrap_or(0);
        mapped(ip) & mask == mapped(self.ip) & mask
    }
}

fn mapped(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        Self::parse(text.trim()).ok_or_else(|| NetworkError(text.to_owned()))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

text_option!(Network "network" ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.1"),
            ("10.1.2.3/8", "10.0.0.1", "::ffff:11.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.0.0.1", "2001:db8::1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("2001:db8::/32", "2001:db8:9::1", "2001:db9::1"),
            ("0.0.0.0/0", "203.0.113.9", "2001:db8::1"),
            ("::1", "::1", "::2"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network}");
            assert!(!network.contains(outside.parse().unwrap()), "{network}");
        }
        let everyone: Network = "::/0".parse().unwrap();
        assert!(everyone.contains([192, 0, 2, 1].into()));
        for wrong in [
            "10.0.0.0/33",
            "10.0.0/8",
            "proxy",
            "::/129",
            "10.0.0.0/",
            "",
        ] {
            let error = wrong.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains("write for example 10.0.0.0/8"), "{error}");
        }
    }
}
