//! Addresses as they are told.

use std::net::SocketAddr;

/// An address that can be connected to from this host.
pub fn show(a: SocketAddr) -> String {
    if a.ip().is_unspecified() { format!("127.0.0.1:{}", a.port()) } else { a.to_string() }
}
