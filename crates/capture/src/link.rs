//! How frames begin: link types of tcpdump's registry, as far as an IP packet is found behind them.

/// BSD loopback: the address family in the byte order of the machine that captured.
pub const NULL: u32 = 0;
/// Ethernet.
pub const ETHERNET: u32 = 1;
/// IP without anything before it.
pub const RAW: u32 = 101;
/// `OpenBSD`'s loopback: the address family, most significant byte first.
pub const LOOP: u32 = 108;
/// Linux "any" device.
pub const LINUX_SLL: u32 = 113;
/// IPv4 without anything before it.
pub const IPV4: u32 = 228;
/// IPv6 without anything before it.
pub const IPV6: u32 = 229;
/// Linux "any" device, second version.
pub const LINUX_SLL2: u32 = 276;

/// Whether an IP packet is looked for in frames of this kind.
pub fn is_known(link: u32) -> bool {
    // 12 and 14 are what some systems wrote for RAW before the registry.
    matches!(link, NULL | ETHERNET | 12 | 14 | RAW | LOOP | LINUX_SLL | IPV4 | IPV6 | LINUX_SLL2)
}
