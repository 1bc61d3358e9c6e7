//! How a UDP socket is made, and what the kernel granted.

use std::ffi::c_int;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use std::{fmt, io};

use crate::sys;

/// Options of a UDP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// `SO_RCVBUF` in bytes; `None` = the system's default, 208 KB as a rule, which is little for a stream. The kernel caps it at
    /// `net.core.rmem_max` without an error unless this process may exceed that: see [`Granted`].
    pub receive_buffer: Option<usize>,
    /// `SO_SNDBUF`, likewise (`net.core.wmem_max`).
    pub send_buffer: Option<usize>,
    /// `SO_REUSEADDR`: several sockets of one host receive the same multicast port.
    pub reuse_address: bool,
    /// `SO_REUSEPORT`: several sockets share a unicast port; the kernel spreads peers over them.
    pub reuse_port: bool,
    /// Send trains by one call, where it works.
    pub gso: bool,
    /// Receive trains by one call, where it works.
    pub gro: bool,
    /// The longest datagram that is received; longer ones are dropped and counted. At most [`PAYLOAD_MAX`](super::PAYLOAD_MAX).
    pub datagram_max: usize,
    /// Tell for each datagram to which address it was sent: for a socket that is bound to all addresses and in several groups.
    pub destination: bool,
    /// Address of the interface that multicast goes out on; `None`: as the routes say.
    pub multicast_interface: Option<Ipv4Addr>,
    /// Routers that multicast may pass, plus one.
    pub multicast_ttl: u8,
    /// Whether receivers on this host get what is sent from here by multicast.
    pub multicast_loop: bool,
    /// `SO_BUSY_POLL`: how long a receive that finds nothing polls the device. Does nothing on loopback.
    pub busy_poll: Option<Duration>,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            receive_buffer: None,
            send_buffer: None,
            reuse_address: false,
            reuse_port: false,
            gso: true,
            gro: true,
            datagram_max: 65_507,
            destination: false,
            multicast_interface: None,
            multicast_ttl: 16,
            multicast_loop: true,
            busy_poll: None,
        }
    }
}

impl UdpOptions {
    pub(super) fn apply(&self, fd: BorrowedFd<'_>, addr: SocketAddrV4) -> io::Result<()> {
        let set = |level: c_int, name: c_int, value: c_int, what: &str| {
            sys::set_option(fd, level, name, value)
                .map_err(|e| io::Error::new(e.kind(), format!("UDP socket {addr}: {what} refused: {e}")))
        };
        if let Some(bytes) = self.receive_buffer {
            sys::set_buffer(fd, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, bytes)?;
        }
        if let Some(bytes) = self.send_buffer {
            sys::set_buffer(fd, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, bytes)?;
        }
        if self.reuse_address {
            set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1, "SO_REUSEADDR")?;
        }
        if self.reuse_port {
            set(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1, "SO_REUSEPORT")?;
        }
        set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1, "SO_RXQ_OVFL")?;
        if self.destination {
            set(libc::IPPROTO_IP, libc::IP_PKTINFO, 1, "IP_PKTINFO")?;
        }
        // Else a socket bound to all addresses gets the groups that other sockets of the host have joined.
        set(libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0, "IP_MULTICAST_ALL")?;
        set(libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, self.multicast_ttl.into(), "IP_MULTICAST_TTL")?;
        set(libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, self.multicast_loop.into(), "IP_MULTICAST_LOOP")?;
        if let Some(interface) = self.multicast_interface {
            sys::multicast_interface(fd, interface).map_err(|e| {
                io::Error::new(
                    e.kind(),
                    format!("UDP socket {addr}: no multicast on an interface with address {interface}: {e}"),
                )
            })?;
        }
        if let Some(time) = self.busy_poll {
            let microseconds = c_int::try_from(time.as_micros()).unwrap_or(c_int::MAX);
            set(
                libc::SOL_SOCKET,
                libc::SO_BUSY_POLL,
                microseconds,
                "SO_BUSY_POLL (more than the system's default needs CAP_NET_ADMIN)",
            )?;
        }
        Ok(())
    }
}

/// Whether an offload is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Not asked for.
    Off,
    /// In use.
    On,
    /// Refused with this `errno`: switched off.
    Refused(i32),
}

impl Offload {
    pub(super) fn enable_gro(fd: BorrowedFd<'_>) -> Self {
        match sys::set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1) {
            Ok(()) => Self::On,
            Err(e) => Self::Refused(e.raw_os_error().unwrap_or(0)),
        }
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On => f.write_str("on"),
            Self::Refused(errno) => write!(f, "refused: {}", io::Error::from_raw_os_error(*errno)),
        }
    }
}

/// Buffer sizes as asked for and as granted, in bytes, without the doubling that the kernel does for its own accounting. `Display` is
/// a warning with the command that helps, if less was granted; nothing otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// `SO_RCVBUF` as asked for.
    pub receive_asked: Option<usize>,
    /// `SO_RCVBUF` as it is.
    pub receive: usize,
    /// `SO_SNDBUF` as asked for.
    pub send_asked: Option<usize>,
    /// `SO_SNDBUF` as it is.
    pub send: usize,
}

impl Granted {
    pub(super) fn of(fd: BorrowedFd<'_>, options: &UdpOptions) -> io::Result<Self> {
        let size = |name| Ok::<_, io::Error>(sys::option(fd, libc::SOL_SOCKET, name)?.max(0) as usize / 2);
        Ok(Self {
            receive_asked: options.receive_buffer,
            receive: size(libc::SO_RCVBUF)?,
            send_asked: options.send_buffer,
            send: size(libc::SO_SNDBUF)?,
        })
    }

    /// Whether both buffers are as large as asked for.
    pub fn in_full(&self) -> bool {
        self.shortages().next().is_none()
    }

    /// The longest train that leaves room for others in a receiver's buffer like this one: an eighth of it.
    pub fn train_max(&self) -> usize {
        self.receive / 8
    }

    fn shortages(&self) -> impl Iterator<Item = (&'static str, usize, usize, &'static str)> {
        [
            ("receive", self.receive_asked, self.receive, "net.core.rmem_max"),
            ("send", self.send_asked, self.send, "net.core.wmem_max"),
        ]
        .into_iter()
        .filter_map(|(what, asked, granted, limit)| {
            asked.filter(|asked| *asked > granted).map(|asked| (what, asked, granted, limit))
        })
    }
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (what, asked, granted, limit)) in self.shortages().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(
                f,
                "{separator}the kernel granted a {what} buffer of {granted} bytes instead of {asked}: raise the limit with `sysctl -w {limit}={asked}`"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::udp::UdpSocket;

    const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

    /// Takes `CAP_NET_ADMIN` from this thread, if it has it.
    fn be_nobody_special() {
        let mut header = [0x2008_0522_u32, 0];
        let mut sets = [[0u32; 3]; 2];
        // SAFETY: version 3 of the interface: a header of two ints, and two sets of three 32-bit masks.
        unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
        sets[0][0] &= !(1 << 12);
        // SAFETY: as above.
        let result = unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()) };
        assert_eq!(result, 0);
    }

    #[test]
    fn a_buffer_that_is_not_granted_names_the_command_that_helps() {
        let check = || {
            be_nobody_special();
            let options =
                UdpOptions { receive_buffer: Some(1 << 30), send_buffer: Some(4_096), ..UdpOptions::default() };
            let granted = UdpSocket::bind(ANY, &options).expect("bind").granted(&options).expect("sizes");
            assert!(!granted.in_full() && granted.receive < 1 << 30 && granted.send >= 4_096, "{granted:?}");
            let text = granted.to_string();
            assert!(text.contains("sysctl -w net.core.rmem_max=1073741824") && !text.contains("wmem_max"), "{text}");
            assert!(text.contains(&granted.receive.to_string()), "{text}");
            let modest = UdpOptions { receive_buffer: Some(65_536), ..UdpOptions::default() };
            let granted = UdpSocket::bind(ANY, &modest).expect("bind").granted(&modest).expect("sizes");
            assert_eq!((granted.in_full(), granted.receive, granted.train_max()), (true, 65_536, 8_192));
            assert_eq!(granted.to_string(), "");
        };
        std::thread::spawn(check).join().expect("the checks hold");
    }
}
