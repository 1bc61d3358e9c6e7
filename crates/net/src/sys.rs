//! System calls as safe functions over owned and borrowed descriptors. No policy here: one call, its errors, nothing else.

use std::ffi::c_int;
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The result of a call that returns -1 and sets `errno` when it fails.
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(crate) fn check_len(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

/// Takes ownership of a descriptor that a system call has just returned.
pub(crate) fn own(fd: c_int) -> io::Result<OwnedFd> {
    let fd = check(fd)?;
    // SAFETY: the kernel has just created `fd` for this process (checked above), and nothing else holds it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An address in the kernel's form, with its length.
pub(crate) struct RawAddr {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl RawAddr {
    pub(crate) fn empty() -> Self {
        // SAFETY: sockaddr_storage is plain bytes and integers; all zero is the valid "unspecified" address.
        let storage = unsafe { MaybeUninit::<libc::sockaddr_storage>::zeroed().assume_init() };
        Self { storage, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    /// The address, or `None` for a family that is neither IPv4 nor IPv6.
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        match c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: sockaddr_storage is large enough and aligned for every sockaddr; the family says which one it is.
                let v4 = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 => {
                // SAFETY: as above, for the IPv6 form.
                let v6 = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id)))
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for RawAddr {
    fn from(addr: SocketAddr) -> Self {
        let mut raw = Self::empty();
        match addr {
            SocketAddr::V4(v4) => {
                // SAFETY: sockaddr_storage is large enough and aligned for sockaddr_in, and `raw` is ours alone.
                let out = unsafe { &mut *(&raw mut raw.storage).cast::<libc::sockaddr_in>() };
                out.sin_family = libc::AF_INET as libc::sa_family_t;
                out.sin_port = v4.port().to_be();
                out.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                raw.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above, for the IPv6 form.
                let out = unsafe { &mut *(&raw mut raw.storage).cast::<libc::sockaddr_in6>() };
                out.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                out.sin6_port = v6.port().to_be();
                out.sin6_addr.s6_addr = v6.ip().octets();
                out.sin6_flowinfo = v6.flowinfo();
                out.sin6_scope_id = v6.scope_id();
                raw.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        raw
    }
}

/// A non-blocking, close-on-exec stream socket of the address's family.
pub(crate) fn tcp_socket(for_addr: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if for_addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers are passed.
    own(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })
}

/// A non-blocking, close-on-exec UDP socket for IPv4.
pub(crate) fn udp_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    own(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })
}

/// An IPv4 address in the kernel's form.
#[inline]
pub(crate) fn raw_v4(addr: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: addr.port().to_be(),
        sin_addr: raw_ip(*addr.ip()),
        sin_zero: [0; 8],
    }
}

fn raw_ip(ip: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: u32::from(ip).to_be() }
}

/// Joins or leaves (`operation`) a multicast group on the interface with an address; unspecified: as the routes say.
pub(crate) fn membership(fd: BorrowedFd<'_>, operation: c_int, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
    let request = libc::ip_mreq { imr_multiaddr: raw_ip(group), imr_interface: raw_ip(interface) };
    let len = size_of::<libc::ip_mreq>() as libc::socklen_t;
    // SAFETY: pointer and length describe `request`, which lives through the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_IP, operation, (&raw const request).cast(), len) })
        .map(drop)
}

/// Multicast goes out on the interface with this address.
pub(crate) fn multicast_interface(fd: BorrowedFd<'_>, interface: Ipv4Addr) -> io::Result<()> {
    let addr = raw_ip(interface);
    let len = size_of::<libc::in_addr>() as libc::socklen_t;
    // SAFETY: pointer and length describe `addr`, which lives through the call.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MULTICAST_IF, (&raw const addr).cast(), len)
    })
    .map(drop)
}

/// Sets a buffer size; past the system's limit only if this process may.
pub(crate) fn set_buffer(fd: BorrowedFd<'_>, plain: c_int, force: c_int, bytes: usize) -> io::Result<()> {
    let wanted = c_int::try_from(bytes).unwrap_or(c_int::MAX / 2);
    set_option(fd, libc::SOL_SOCKET, plain, wanted)?;
    // The kernel doubles what it grants and caps it without an error. The forced form needs CAP_NET_ADMIN: being refused is no
    // error, the granted size can be read.
    if option(fd, libc::SOL_SOCKET, plain)? < wanted.saturating_mul(2) {
        let _ = set_option(fd, libc::SOL_SOCKET, force, wanted);
    }
    Ok(())
}

/// Datagrams that found the receive buffer full, since the socket was made (Linux 4.12).
pub(crate) fn receive_drops(fd: BorrowedFd<'_>) -> Option<u32> {
    /// `SO_MEMINFO`, and the index of `SK_MEMINFO_DROPS` in what it gives.
    const MEMINFO: c_int = 55;
    const DROPS: usize = 8;
    let mut info = [0u32; 16];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `info`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, MEMINFO, (&raw mut info).cast(), &raw mut len) })
        .ok()?;
    (len as usize >= (DROPS + 1) * 4).then(|| info[DROPS])
}

pub(crate) fn bind(fd: BorrowedFd<'_>, addr: SocketAddr) -> io::Result<()> {
    let raw = RawAddr::from(addr);
    // SAFETY: the pointer and length describe `raw`, which lives through the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), raw.as_ptr(), raw.len) }).map(drop)
}

pub(crate) fn listen(fd: BorrowedFd<'_>, backlog: u32) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog.min(i32::MAX as u32) as c_int) }).map(drop)
}

/// Starts a connect; `Ok(true)` if it is complete already.
pub(crate) fn connect(fd: BorrowedFd<'_>, addr: SocketAddr) -> io::Result<bool> {
    let raw = RawAddr::from(addr);
    // SAFETY: the pointer and length describe `raw`, which lives through the call.
    match check(unsafe { libc::connect(fd.as_raw_fd(), raw.as_ptr(), raw.len) }) {
        Ok(_) => Ok(true),
        // EINTR: the connect goes on in the background, exactly as EINPROGRESS (connect(2)).
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Accepts one connection, non-blocking and close-on-exec. The address is `None` for a family we do not know.
pub(crate) fn accept(fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let mut raw = RawAddr::empty();
    // SAFETY: the kernel writes at most `raw.len` bytes into `raw.storage` and the new length into `raw.len`.
    let accepted = own(unsafe {
        libc::accept4(
            fd.as_raw_fd(),
            (&raw mut raw.storage).cast(),
            &raw mut raw.len,
            libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
        )
    })?;
    Ok((accepted, raw.get()))
}

/// The address of this end (`peer` false) or the other end of a socket.
pub(crate) fn socket_name(fd: BorrowedFd<'_>, peer: bool) -> io::Result<SocketAddr> {
    let mut raw = RawAddr::empty();
    let call = if peer { libc::getpeername } else { libc::getsockname };
    // SAFETY: the kernel writes at most `raw.len` bytes into `raw.storage` and the new length into `raw.len`.
    check(unsafe { call(fd.as_raw_fd(), (&raw mut raw.storage).cast(), &raw mut raw.len) })?;
    raw.get().ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// Sets an integer socket option.
pub(crate) fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, an int, which lives through the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) }).map(drop)
}

/// Reads an integer socket option.
pub(crate) fn option(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`, an int.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// `SO_LINGER` on with zero seconds: the close that follows sends a reset and forgets what is unsent.
pub(crate) fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: pointer and length describe `linger`, which lives through the call.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), len)
    })
    .map(drop)
}

pub(crate) fn shutdown_write(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// On a socket that listens: it does no more, and stays bound.
pub(crate) fn shutdown_read(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RD) }).map(drop)
}

/// A socket filter of one instruction, which takes nothing of any segment: for the peer this host is gone, without a word.
pub(crate) fn drop_segments(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: pointer and length describe `program`, whose one instruction lives through the call as it does; the kernel copies both.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const program).cast(), len)
    })
    .map(drop)
}

pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut on: c_int = 1;
    // SAFETY: FIONBIO reads one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut on) }).map(drop)
}

/// Bytes in the send queue that the peer has not acknowledged (`SIOCOUTQ`).
pub(crate) fn unacknowledged(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ has the same number) writes one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(bytes.max(0) as usize)
}

/// What the kernel has counted of a TCP connection (`TCP_INFO`).
pub(crate) fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: all zeros is a value of this struct of integers; an older kernel leaves the end of it as it is.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let to = (&raw mut info).cast();
    // SAFETY: the kernel writes at most `len` bytes into `info`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len) })?;
    Ok(info)
}

/// One `recv`; repeats only when a signal interrupted it.
pub(crate) fn recv(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the kernel writes at most `buf.len()` bytes into `buf`.
        let n = unsafe { libc::recv(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT) };
        match check_len(n) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Takes up to `max` bytes out of the receive queue of a TCP socket without copying them anywhere.
pub(crate) fn recv_discard(fd: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
    loop {
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: with MSG_TRUNC, TCP drops the bytes and never touches the buffer (tcp(7)), so a null one is allowed.
        let n = unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), max, flags) };
        match check_len(n) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// One `send` that neither blocks nor raises SIGPIPE; repeats only when a signal interrupted it.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    loop {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the kernel reads at most `bytes.len()` bytes from `bytes`.
        let n = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
        match check_len(n) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// As [`send`], from several buffers in order.
pub(crate) fn send_vectored(fd: BorrowedFd<'_>, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
    loop {
        // SAFETY: all zero is a valid msghdr (no name, no control data).
        let mut header = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
        header.msg_iov = parts.as_ptr().cast_mut().cast();
        header.msg_iovlen = parts.len();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: IoSlice has the layout of iovec (documented by std); the kernel only reads through it, within its lengths.
        let n = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, flags) };
        match check_len(n) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    own(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })
}

/// Adds one to an eventfd. A full counter (EAGAIN) is a wake-up that is pending anyway.
pub(crate) fn eventfd_signal(fd: BorrowedFd<'_>) {
    let one: u64 = 1;
    // SAFETY: reads the eight bytes of `one`. write(2) is async-signal-safe.
    let _ = unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
}

/// Takes the count out of an eventfd; `false` if it was zero.
pub(crate) fn eventfd_take(fd: BorrowedFd<'_>) -> bool {
    let mut count: u64 = 0;
    // SAFETY: writes the eight bytes of `count`.
    let n = unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    n == size_of::<u64>() as isize
}

/// Waits until a descriptor is readable, at most `timeout` (`None`: for ever). `false` on timeout or a signal.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
    wait_for(fd, libc::POLLIN, timeout)
}

/// Waits until a descriptor is writable, likewise.
pub(crate) fn wait_writable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
    wait_for(fd, libc::POLLOUT, timeout)
}

fn wait_for(fd: BorrowedFd<'_>, events: libc::c_short, timeout: Option<Duration>) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let spec = timeout.map(timespec);
    let spec_ptr = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: one pollfd and, unless null, one timespec, both alive through the call; no signal mask.
    match check(unsafe { libc::ppoll(&raw mut poll, 1, spec_ptr, std::ptr::null()) }) {
        Ok(n) => Ok(n > 0),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(e) => Err(e),
    }
}

pub(crate) fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(duration.subsec_nanos() as i32),
    }
}

/// An epoll instance.
pub(crate) struct Epoll {
    fd: OwnedFd,
    /// Cleared when the kernel turns out not to know `epoll_pwait2` (before 5.11): time-outs are then in milliseconds.
    fine: bool,
}

pub(crate) type EpollEvent = libc::epoll_event;

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Self { fd, fine: true })
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    fn control(&self, op: c_int, fd: BorrowedFd<'_>, events: c_int, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: the kernel reads one epoll_event, alive through the call.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), op, fd.as_raw_fd(), &raw mut event) }).map(drop)
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, events: c_int, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }

    pub(crate) fn modify(&self, fd: BorrowedFd<'_>, events: c_int, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, token)
    }

    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// Waits for events; a signal is reported as no event.
    pub(crate) fn wait(&mut self, out: &mut [EpollEvent], timeout: Option<Duration>) -> io::Result<usize> {
        let max = c_int::try_from(out.len()).unwrap_or(c_int::MAX);
        let result = match timeout {
            Some(limit) if !limit.is_zero() => {
                if self.fine {
                    match self.wait_fine(out, max, limit) {
                        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => {
                            self.fine = false;
                            self.wait_milliseconds(out, max, round_up_milliseconds(limit))
                        }
                        other => other,
                    }
                } else {
                    self.wait_milliseconds(out, max, round_up_milliseconds(limit))
                }
            }
            Some(_) => self.wait_milliseconds(out, max, 0),
            None => self.wait_milliseconds(out, max, -1),
        };
        match result {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            other => other,
        }
    }

    fn wait_milliseconds(&self, out: &mut [EpollEvent], max: c_int, milliseconds: c_int) -> io::Result<usize> {
        // SAFETY: the kernel writes at most `max` events, and `out` has room for that many.
        let n = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), out.as_mut_ptr(), max, milliseconds) };
        check(n).map(|n| n as usize)
    }

    fn wait_fine(&self, out: &mut [EpollEvent], max: c_int, limit: Duration) -> io::Result<usize> {
        let spec = timespec(limit);
        let no_mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the kernel writes at most `max` events into `out`, which has room for that many, and reads `spec`
        // (on 64-bit targets timespec is the __kernel_timespec that the call takes); no signal mask is given.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                out.as_mut_ptr(),
                max,
                &raw const spec,
                no_mask,
                mem::size_of::<u64>(),
            )
        };
        check(n as c_int).map(|n| n as usize)
    }
}

fn round_up_milliseconds(limit: Duration) -> c_int {
    c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernel_form() {
        for text in ["127.0.0.1:14002", "0.0.0.0:0", "255.1.2.3:65535", "[::1]:8101", "[fe80::1%3]:15000"] {
            let addr: SocketAddr = text.parse().expect(text);
            assert_eq!(RawAddr::from(addr).get(), Some(addr), "{text}");
        }
        assert_eq!(RawAddr::empty().get(), None);
    }

    #[test]
    fn a_timeout_below_a_millisecond_never_becomes_a_busy_poll() {
        assert_eq!(round_up_milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(round_up_milliseconds(Duration::from_millis(3)), 3);
        assert_eq!(round_up_milliseconds(Duration::MAX), c_int::MAX);
    }
}
