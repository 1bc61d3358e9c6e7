//! Which interface a socket is for.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use lbm::options::{self, ContextOption, Opt, Options};
use net::interfaces::{Interface, interfaces};

use crate::error::ContextError;

/// The address of the interface that an option names, or `None` if it is left open (`0.0.0.0`).
///
/// `address/bits` is the interface with an address in that network; a name is the first address of the interface that is called so.
fn named(options: &Options, option: Opt<options::Interface>) -> Result<Option<Ipv4Addr>, ContextError> {
    let text = options.get(option);
    let bad = || ContextError::Interface { option: option.name(), value: text.to_owned() };
    let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
    let Ok(address) = address.parse::<Ipv4Addr>() else {
        let all = interfaces().map_err(ContextError::io("asking for network interfaces"))?;
        let called = all.iter().find(|interface| interface.name == text);
        return called.map(|interface| Some(interface.address)).ok_or_else(bad);
    };
    let bits: u32 = bits.parse().unwrap_or(32);
    if address.is_unspecified() {
        return Ok(None);
    }
    if bits >= 32 {
        return Ok(Some(address));
    }
    let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
    let network = u32::from(address) & mask;
    let all = interfaces().map_err(ContextError::io("asking for network interfaces"))?;
    let found = all.iter().find(|i| u32::from(i.address) & mask == network);
    found.map(|interface| Some(interface.address)).ok_or_else(bad)
}

/// The local address from which the kernel sends to `to`. Nothing is sent.
fn towards(to: Ipv4Addr) -> io::Result<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((to, 9))?;
    match socket.local_addr()? {
        SocketAddr::V4(local) if !local.ip().is_unspecified() => Ok(*local.ip()),
        _ => Err(io::Error::from(io::ErrorKind::AddrNotAvailable)),
    }
}

/// The interface with this address, if it is one to other hosts: its name, and the longest packet that it sends in one piece.
pub(crate) fn packet_max(address: Ipv4Addr) -> Option<(String, usize)> {
    let interface = interfaces().ok()?.into_iter().find(|i| i.address == address && !i.loopback)?;
    let mtu = interface.mtu().ok()?;
    Some((interface.name, mtu))
}

/// For multicast: `resolver_multicast_interface`, `default_interface`, or where the kernel routes `group` if that interface does
/// multicast (a tunnel may not), else the first one that does; loopback on a host without a network.
pub(crate) fn multicast(options: &Options, group: Ipv4Addr) -> Result<Ipv4Addr, ContextError> {
    for option in [ContextOption::RESOLVER_MULTICAST_INTERFACE, ContextOption::DEFAULT_INTERFACE] {
        if let Some(address) = named(options, option)? {
            return Ok(address);
        }
    }
    let able: Vec<Interface> = interfaces().unwrap_or_default().into_iter().filter(|i| i.multicast).collect();
    let routed = towards(group).ok().filter(|routed| able.iter().any(|i| i.address == *routed));
    Ok(choose(routed, &able))
}

/// For unicast: the option, `default_interface`, or what the kernel would use towards other hosts.
pub(crate) fn unicast(options: &Options, option: Opt<options::Interface>) -> Result<Ipv4Addr, ContextError> {
    for option in [option, ContextOption::DEFAULT_INTERFACE] {
        if let Some(address) = named(options, option)? {
            return Ok(address);
        }
    }
    // Any address outside: only the route is asked for.
    let routed = towards(Ipv4Addr::new(192, 0, 2, 1)).ok();
    Ok(choose(routed, &interfaces().unwrap_or_default()))
}

/// Where the kernel's routes lead. A network without a router has none for others' addresses, nor for groups: then the first
/// interface that leads out of this host; loopback if there is none.
fn choose(routed: Option<Ipv4Addr>, all: &[Interface]) -> Ipv4Addr {
    let outward = |i: &&Interface| !i.loopback;
    let routed = routed.filter(|routed| !routed.is_loopback());
    routed.or_else(|| all.iter().find(outward).map(|i| i.address)).unwrap_or(Ipv4Addr::LOCALHOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_without_a_route_is_one_all_the_same() {
        let interface = |name: &str, address: [u8; 4]| Interface {
            name: name.to_owned(),
            address: address.into(),
            mask: Ipv4Addr::new(255, 255, 255, 0),
            multicast: true,
            loopback: address[0] == 127,
        };
        let (lo, eth) = (interface("lo", [127, 0, 0, 1]), interface("eth0", [10, 1, 0, 2]));
        assert_eq!(choose(None, &[lo.clone(), eth.clone()]), eth.address);
        assert_eq!(choose(Some(Ipv4Addr::new(10, 2, 0, 2)), &[lo.clone(), eth]), Ipv4Addr::new(10, 2, 0, 2));
        assert_eq!(choose(None, &[lo]), Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn a_network_names_its_interface() {
        let mut options = Options::new();
        options.put(ContextOption::DEFAULT_INTERFACE, "127.0.0.0/8").expect("a network");
        assert_eq!(multicast(&options, Ipv4Addr::new(224, 9, 10, 11)).expect("loopback"), Ipv4Addr::LOCALHOST);
        options.put(ContextOption::DEFAULT_INTERFACE, "lo").expect("a name");
        assert_eq!(multicast(&options, Ipv4Addr::new(224, 9, 10, 11)).expect("loopback"), Ipv4Addr::LOCALHOST);
        for other in ["203.0.113.0/24", "nosuch7"] {
            options.put(ContextOption::RESOLVER_MULTICAST_INTERFACE, other).expect("a network, or a name");
            let error = multicast(&options, Ipv4Addr::new(224, 9, 10, 11)).expect_err("not of this host");
            assert!(error.to_string().contains("resolver_multicast_interface"), "{error}");
        }
    }
}
