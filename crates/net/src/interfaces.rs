//! The network interfaces of this host.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use crate::sys::check;

/// An interface that is up, with one of its IPv4 addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Such as `eth0`.
    pub name: String,
    /// Address.
    pub address: Ipv4Addr,
    /// Network mask.
    pub mask: Ipv4Addr,
    /// Whether the system says that it does multicast. Loopback does not say so, and does it all the same.
    pub multicast: bool,
    /// Whether it leads back to this host.
    pub loopback: bool,
}

impl Interface {
    /// Bits of the network part.
    pub fn prefix(&self) -> u32 {
        u32::from(self.mask).leading_ones()
    }

    /// The longest packet that it sends in one piece, IP header included.
    ///
    /// # Errors
    /// It is gone.
    pub fn mtu(&self) -> io::Result<usize> {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        // SAFETY: all zero is a valid ifreq: a name and plain numbers.
        let mut request = unsafe { MaybeUninit::<libc::ifreq>::zeroed().assume_init() };
        // The last byte stays 0. A second address has a label behind a colon; the device is what stands before it.
        let name = self.name.split(':').next().unwrap_or_default().as_bytes();
        for (to, byte) in request.ifr_name.iter_mut().zip(name.iter().take(libc::IFNAMSIZ - 1)) {
            *to = *byte as libc::c_char;
        }
        // SAFETY: the kernel reads the name and writes the number of an ifreq that lives through the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) })?;
        // SAFETY: the call has succeeded, so this is the field that the kernel has written.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// Whether the address is in this interface's network.
    pub fn reaches(&self, address: Ipv4Addr) -> bool {
        u32::from(address) & u32::from(self.mask) == u32::from(self.address) & u32::from(self.mask)
    }
}

/// All interfaces that are up, once for each of their IPv4 addresses, in the system's order.
///
/// # Errors
/// No memory.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut list = std::ptr::null_mut::<libc::ifaddrs>();
    // SAFETY: the call writes the head of a list, which is freed below.
    check(unsafe { libc::getifaddrs(&raw mut list) })?;
    let mut found = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: an entry of the list that getifaddrs has made; not freed yet.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        let flag = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
        // SAFETY: null, or addresses of the list, of the size that their family has.
        let (address, mask) = unsafe { (ipv4(entry.ifa_addr), ipv4(entry.ifa_netmask)) };
        if let Some(address) = address
            && flag(libc::IFF_UP)
        {
            // SAFETY: the name is a string of the list, with its terminating zero.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
            found.push(Interface {
                name,
                address,
                mask: mask.unwrap_or(Ipv4Addr::BROADCAST),
                multicast: flag(libc::IFF_MULTICAST),
                loopback: flag(libc::IFF_LOOPBACK),
            });
        }
    }
    // SAFETY: made by getifaddrs above; nothing refers to it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// # Safety
/// Null, or a socket address of the size that its family has.
unsafe fn ipv4(addr: *const libc::sockaddr) -> Option<Ipv4Addr> {
    // SAFETY: the caller's promise; read unaligned, so that nothing depends on where the list has it.
    unsafe {
        (!addr.is_null() && libc::c_int::from((&raw const (*addr).sa_family).read_unaligned()) == libc::AF_INET)
            .then(|| addr.cast::<libc::sockaddr_in>().read_unaligned())
            .map(|v4| Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_reaches_its_network() {
        let all = interfaces().expect("interfaces");
        let lo = all.iter().find(|i| i.address == Ipv4Addr::LOCALHOST).expect("127.0.0.1");
        assert!(lo.loopback && lo.prefix() == 8, "{lo:?}");
        assert!(lo.mtu().expect("it is there") >= 1_500, "{lo:?}");
        let gone = Interface { name: "nothing-here".to_owned(), ..lo.clone() };
        assert!(gone.mtu().is_err());
        assert!(lo.reaches(Ipv4Addr::new(127, 9, 9, 9)) && !lo.reaches(Ipv4Addr::new(128, 0, 0, 1)));
    }
}
