//! Sockets as parameters describe them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use net::tcp::SocketOptions;

/// Socket options as the configuration gives them; a buffer size of 0 is the kernel's own.
pub fn socket_options(no_delay: bool, send_buffer: u32, receive_buffer: u32) -> SocketOptions {
    SocketOptions {
        no_delay,
        send_buffer: (send_buffer > 0).then_some(send_buffer as usize),
        receive_buffer: (receive_buffer > 0).then_some(receive_buffer as usize),
        ..SocketOptions::default()
    }
}

/// Where a port listens: on an interface by its address or by its network (`10.1.0.0/16`: this machine's address in it), or on all of them (empty).
///
/// # Errors
/// The text is neither, or this machine has no address in the network.
pub fn listening_address(interface: &str, port: u16) -> io::Result<SocketAddr> {
    if interface.is_empty() {
        return Ok(SocketAddr::from(([0, 0, 0, 0], port)));
    }
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("interface {interface}: {what}"));
    if let Some((network, bits)) = interface.split_once('/') {
        let (Ok(network), Ok(bits @ 0..=32)) = (network.parse::<Ipv4Addr>(), bits.parse::<u32>()) else {
            return Err(bad("not a network, as 10.1.0.0/16"));
        };
        let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0));
        let all = net::interfaces::interfaces()?;
        let own = all.iter().map(|i| i.address).find(|address| *address & mask == network & mask);
        return Ok(SocketAddr::new(
            own.ok_or_else(|| bad("this machine has no address in that network"))?.into(),
            port,
        ));
    }
    let ip: IpAddr = interface.parse().map_err(|_| bad("not an IP address"))?;
    Ok(SocketAddr::new(ip, port))
}

/// Names the port in an error of opening it, and `setting`, by which another one is chosen.
pub fn listening_fault(whom: &str, at: SocketAddr, setting: &str, e: &io::Error) -> io::Error {
    let what = match e.kind() {
        io::ErrorKind::AddrInUse => format!("another program has it: end that, or choose another port with {setting}"),
        io::ErrorKind::AddrNotAvailable => format!("{} is no address of this machine (interface)", at.ip()),
        io::ErrorKind::PermissionDenied => format!("this user may not open it: choose one above 1023 with {setting}"),
        _ => e.to_string(),
    };
    io::Error::new(e.kind(), format!("port {} ({}) for {whom}: {what}", at.port(), at.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_named_by_address_or_network() {
        let at = |interface: &str| listening_address(interface, 5).map(|at| at.to_string()).map_err(|e| e.to_string());
        assert_eq!(at(""), Ok("0.0.0.0:5".to_owned()));
        assert_eq!(at("127.0.0.1"), Ok("127.0.0.1:5".to_owned()));
        assert_eq!(at("127.99.0.0/8"), Ok("127.0.0.1:5".to_owned()));
        let missing = "interface 203.0.113.0/24: this machine has no address in that network";
        assert_eq!(at("203.0.113.0/24"), Err(missing.to_owned()));
    }
}
