//! Posting: who posted, and what a refusal means.

pub use crate::msg::{NakCode, PostUserInfo};

use std::net::{IpAddr, Ipv4Addr};

impl PostUserInfo {
    /// The user of a connection, for a post that a server passes on. Addresses that are not IPv4 (nor mapped IPv4) are 0,
    /// as the wire has only four bytes.
    pub fn of_peer(addr: IpAddr, id: u32) -> Self {
        let addr = match addr {
            IpAddr::V4(addr) => addr,
            IpAddr::V6(addr) => addr.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED),
        };
        Self { addr: addr.to_bits(), id }
    }

    /// The address in dotted form.
    pub fn ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.addr)
    }
}

impl NakCode {
    /// The reason in words, for the text of an acknowledgement that has none better.
    pub fn text(self) -> &'static str {
        match self {
            Self::NONE => "accepted",
            Self::ACCESS_DENIED => "the user may not post here",
            Self::DENIED_BY_SRC => "the source refused the post",
            Self::SOURCE_DOWN => "the source is down",
            Self::SOURCE_UNKNOWN => "the service is not known or has no provider",
            Self::NO_RESOURCES => "a limit of the server was reached; post again later",
            Self::NO_RESPONSE => "the provider did not answer in time",
            Self::GATEWAY_DOWN => "the gateway is down",
            Self::SYMBOL_UNKNOWN => "the item is not known",
            Self::NOT_OPEN => "the item is not open",
            Self::INVALID_CONTENT => "the content could not be used",
            _ => "refused for a reason without a name",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_as_post_users() {
        let v4 = PostUserInfo::of_peer("10.0.135.235".parse().unwrap(), 7);
        assert_eq!((v4.addr, v4.ip().to_string()), (0x0A00_87EB, "10.0.135.235".to_owned()));
        assert_eq!(PostUserInfo::of_peer("::ffff:10.0.135.235".parse().unwrap(), 7), v4);
        assert_eq!(PostUserInfo::of_peer("fe80::1".parse().unwrap(), 7).addr, 0);
    }

    #[test]
    fn every_named_code_has_its_text() {
        for code in NakCode::ALL {
            assert_ne!(code.text(), NakCode(200).text(), "{code}");
        }
    }
}
