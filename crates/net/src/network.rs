//! Networks of addresses, for lists of who may come in.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// A network, as `10.1.0.0/16`; a single address is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text that names neither an address nor a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadNetwork(String);

impl fmt::Display for BadNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is neither an address nor a network such as 10.1.0.0/16", self.0)
    }
}

impl std::error::Error for BadNetwork {}

impl Network {
    /// Every address of IPv4.
    pub const ANY: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), bits: 0 };

    /// Whether the address belongs to it. An IPv4 address that IPv6 carries counts as itself.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(own) & mask == u32::from(other) & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(own) & mask == u128::from(other) & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.trim().parse().map_err(|_| bad()))?;
        if bits <= most { Ok(Self { address, bits }) } else { Err(bad()) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_addresses_and_no_others() {
        let inside = |network: &str, address: &str| {
            network.parse::<Network>().expect("a network").contains(address.parse().expect("an address"))
        };
        assert!(inside("10.1.0.0/16", "10.1.200.3") && !inside("10.1.0.0/16", "10.2.0.1"));
        assert!(inside("10.1.0.7", "10.1.0.7") && !inside("10.1.0.7", "10.1.0.8"));
        assert!(inside("0.0.0.0/0", "203.0.113.9") && !inside("0.0.0.0/0", "2001:db8::1"));
        assert!(inside("10.1.0.0/16", "::ffff:10.1.0.1") && inside("2001:db8::/32", "2001:db8:9::1"));
        for bad in ["", "10.1.0.0/33", "ten/8", "10.1.0.0/"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
