//! Addresses as they are told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address that can be connected to from this host.
pub fn show(a: SocketAddr) -> String {
    if a.ip().is_unspecified() { format!("127.0.0.1:{}", a.port()) } else { a.to_string() }
}

/// An address that is listened on, as this host reaches it.
pub fn reached(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}
