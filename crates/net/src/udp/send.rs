//! Sending: batches by `sendmmsg`, trains by `UDP_SEGMENT`.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::{Offload, PAYLOAD_MAX, UdpSocket};
use crate::sys::{check_len, raw_v4};

/// Datagrams of one `sendmmsg`.
const BATCH: usize = 64;
/// Datagrams of one train: the limit of kernels before 6.9 (`UDP_MAX_SEGMENTS`); later ones take twice that.
const SEGMENTS: usize = 64;

impl UdpSocket {
    /// Sends one datagram, to `to` or to the connected peer. `false`: the socket's buffer is full.
    ///
    /// # Errors
    /// The caller's mistakes: too long, or no address. What fails in the network is counted as [lost](super::UdpCounters::send_losses).
    #[inline]
    pub fn send(&mut self, to: Option<SocketAddrV4>, datagram: &[u8]) -> io::Result<bool> {
        loop {
            self.counters.send_calls += 1;
            let Err(error) = send_one(self.fd.as_fd(), to, datagram) else {
                self.note_sent(1, datagram.len());
                return Ok(true);
            };
            match Failure::of(&error, to.is_some()) {
                Failure::Interrupted => {}
                Failure::Full => return Ok(false),
                Failure::Refused => self.counters.refused += 1,
                Failure::Lost(errno) => {
                    self.send_error = Some(errno);
                    self.counters.send_losses += 1;
                    return Ok(true);
                }
                Failure::Caller => return Err(error),
            }
        }
    }

    /// Sends datagrams in order; returns how many were handed to the kernel. If that is not all, the socket's buffer is full.
    ///
    /// # Errors
    /// As [`send`](Self::send); those before the bad one have been sent.
    pub fn send_batch<'a>(
        &mut self,
        datagrams: impl IntoIterator<Item = (Option<SocketAddrV4>, &'a [u8])>,
    ) -> io::Result<usize> {
        let mut datagrams = datagrams.into_iter();
        let mut done = 0;
        loop {
            let mut batch = Batch::new();
            while batch.len < BATCH
                && let Some((to, bytes)) = datagrams.next()
            {
                batch.push(to, bytes);
            }
            let sent = self.send_all(&mut batch)?;
            done += sent;
            if sent < batch.len || batch.len < BATCH {
                return Ok(done);
            }
        }
    }

    /// Sends `bytes` as datagrams of `segment` bytes each, the last of which may be shorter; returns how many datagrams were handed to
    /// the kernel. If that is not all, the socket's buffer is full. Longer trains than the kernel takes are cut.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_train(&mut self, to: Option<SocketAddrV4>, bytes: &[u8], segment: usize) -> io::Result<usize> {
        let segment = segment.max(1);
        if bytes.len() <= segment {
            return self.send(to, bytes).map(usize::from);
        }
        let mut rest = bytes;
        let mut done = 0;
        while rest.len() > segment && self.takes_trains_of(segment) {
            let count = (PAYLOAD_MAX / segment).clamp(1, SEGMENTS);
            let (train, later) = rest.split_at(rest.len().min(count * segment));
            match self.send_segments(to, train, segment)? {
                Taken::All => {
                    done += train.len().div_ceil(segment);
                    rest = later;
                }
                Taken::None => return Ok(done),
                Taken::Refused => break,
            }
        }
        if rest.is_empty() {
            return Ok(done);
        }
        Ok(done + self.send_batch(rest.chunks(segment).map(|datagram| (to, datagram)))?)
    }

    #[inline]
    fn takes_trains_of(&self, segment: usize) -> bool {
        self.gso == Offload::On
            && segment <= PAYLOAD_MAX / 2
            && (self.gso_refused_from == 0 || segment < self.gso_refused_from)
    }

    fn send_segments(&mut self, to: Option<SocketAddrV4>, train: &[u8], segment: usize) -> io::Result<Taken> {
        loop {
            self.counters.send_calls += 1;
            let Err(error) = send_segmented(self.fd.as_fd(), to, train, segment as u16) else {
                self.note_sent(train.len().div_ceil(segment), train.len());
                return Ok(Taken::All);
            };
            // A train that is longer than the path's MTU is invalid, too.
            match Failure::of(&error, to.is_some_and(|to| to.port() == 0)) {
                Failure::Interrupted => {}
                Failure::Full => return Ok(Taken::None),
                Failure::Refused => self.counters.refused += 1,
                Failure::Lost(errno) => {
                    self.send_error = Some(errno);
                    self.counters.send_losses += train.len().div_ceil(segment) as u64;
                    return Ok(Taken::All);
                }
                Failure::Caller => {
                    match error.raw_os_error() {
                        // Longer than the path's MTU: shorter ones may still go.
                        Some(libc::EINVAL | libc::EMSGSIZE) => self.gso_refused_from = segment,
                        // The device cannot compute checksums (EIO), or the kernel does not know UDP_SEGMENT.
                        Some(errno @ (libc::EIO | libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::ENOSYS)) => {
                            self.gso = Offload::Refused(errno);
                        }
                        _ => return Err(error),
                    }
                    return Ok(Taken::Refused);
                }
            }
        }
    }

    /// Sends the whole batch, unless the socket's buffer is full.
    fn send_all(&mut self, batch: &mut Batch<'_>) -> io::Result<usize> {
        let mut at = 0;
        while at < batch.len {
            self.counters.send_calls += 1;
            let error = match batch.send(self.fd.as_fd(), at) {
                Ok(sent) => {
                    let bytes = batch.lengths(at, sent).sum();
                    self.note_sent(sent, bytes);
                    at += sent;
                    continue;
                }
                Err(error) => error,
            };
            match Failure::of(&error, batch.is_addressed(at)) {
                Failure::Interrupted => {}
                Failure::Full => break,
                // The report of an earlier datagram; this call has sent nothing.
                Failure::Refused => self.counters.refused += 1,
                Failure::Lost(errno) => {
                    self.send_error = Some(errno);
                    self.counters.send_losses += 1;
                    at += 1;
                }
                Failure::Caller => return Err(error),
            }
        }
        Ok(at)
    }

    #[inline]
    fn note_sent(&mut self, datagrams: usize, bytes: usize) {
        self.counters.datagrams_sent += datagrams as u64;
        self.counters.bytes_sent += bytes as u64;
    }
}

enum Taken {
    All,
    None,
    /// Not as a train.
    Refused,
}

/// Whose fault a failed send is.
enum Failure {
    Interrupted,
    Full,
    /// An ICMP message said that nobody listens at the peer's port.
    Refused,
    /// The network's: as if it had been lost on the way.
    Lost(i32),
    Caller,
}

impl Failure {
    /// Peers say what their address is: one that nothing can be sent to, such as one with port 0, is no mistake of ours. What is invalid
    /// is that, if `by_address`.
    fn of(error: &io::Error, by_address: bool) -> Self {
        match error.raw_os_error() {
            Some(errno @ libc::EINVAL) if by_address => Self::Lost(errno),
            Some(libc::EINTR) => Self::Interrupted,
            Some(libc::EAGAIN) => Self::Full,
            Some(libc::ECONNREFUSED) => Self::Refused,
            Some(
                errno @ (libc::ENOBUFS
                | libc::ENOMEM
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::EHOSTDOWN
                | libc::ENODEV
                | libc::EADDRNOTAVAIL
                // A packet filter's drop, and the address of a broadcast.
                | libc::EPERM
                | libc::EACCES),
            ) => Self::Lost(errno),
            _ => Self::Caller,
        }
    }
}

/// One `sendmmsg` in the making: headers, buffers and addresses that live on the stack and refer to each other only while it is sent.
struct Batch<'a> {
    len: usize,
    parts: [MaybeUninit<io::IoSlice<'a>>; BATCH],
    names: [MaybeUninit<libc::sockaddr_in>; BATCH],
    addressed: u64,
}

impl<'a> Batch<'a> {
    #[inline]
    fn new() -> Self {
        Self {
            len: 0,
            parts: [const { MaybeUninit::uninit() }; BATCH],
            names: [const { MaybeUninit::uninit() }; BATCH],
            addressed: 0,
        }
    }

    #[inline]
    fn push(&mut self, to: Option<SocketAddrV4>, bytes: &'a [u8]) {
        self.parts[self.len].write(io::IoSlice::new(bytes));
        if let Some(to) = to {
            self.names[self.len].write(raw_v4(to));
            self.addressed |= 1 << self.len;
        }
        self.len += 1;
    }

    fn is_addressed(&self, at: usize) -> bool {
        self.addressed & 1 << at != 0
    }

    fn lengths(&self, from: usize, count: usize) -> impl Iterator<Item = usize> {
        // SAFETY: `push` has written all parts below `len`, and `from + count <= len`: the kernel sends no more than it was given.
        self.parts[from..self.len].iter().take(count).map(|part| unsafe { part.assume_init_ref() }.len())
    }

    /// Sends what is there from `from` on, by one call; returns how many datagrams went.
    fn send(&mut self, fd: BorrowedFd<'_>, from: usize) -> io::Result<usize> {
        let count = self.len - from;
        let mut heads = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        for (i, head) in heads.iter_mut().enumerate().take(count) {
            let i = from + i;
            // SAFETY: all zero is a valid mmsghdr (null pointers, zero lengths).
            let mut new = unsafe { MaybeUninit::<libc::mmsghdr>::zeroed().assume_init() };
            if self.is_addressed(i) {
                new.msg_hdr.msg_name = self.names[i].as_mut_ptr().cast();
                new.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            new.msg_hdr.msg_iov = self.parts[i].as_mut_ptr().cast();
            new.msg_hdr.msg_iovlen = 1;
            head.write(new);
        }
        let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _;
        // SAFETY: the first `count` headers are written; each points to one part (IoSlice has the layout of iovec, documented by std)
        // and at most one address, all of which live through the call. The kernel reads them and writes only `msg_len`.
        let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), heads.as_mut_ptr().cast(), count as libc::c_uint, flags) };
        check_len(sent as isize)
    }
}

/// One `send` or `sendto`.
fn send_one(fd: BorrowedFd<'_>, to: Option<SocketAddrV4>, datagram: &[u8]) -> io::Result<usize> {
    let name = to.map(raw_v4);
    let (pointer, len) = match &name {
        Some(name) => (std::ptr::from_ref(name).cast(), size_of::<libc::sockaddr_in>() as libc::socklen_t),
        None => (std::ptr::null(), 0),
    };
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the datagram, and the address unless it is null; both live through the call with the lengths given.
    check_len(unsafe { libc::sendto(fd.as_raw_fd(), datagram.as_ptr().cast(), datagram.len(), flags, pointer, len) })
}

/// Control data of one 16-bit number, aligned as the kernel wants it.
#[repr(C, align(8))]
struct SegmentControl([u8; SEGMENT_SPACE]);

// SAFETY: CMSG_SPACE computes from its argument alone.
const SEGMENT_SPACE: usize = unsafe { libc::CMSG_SPACE(size_of::<u16>() as libc::c_uint) } as usize;

/// One `sendmsg` with `UDP_SEGMENT`.
fn send_segmented(fd: BorrowedFd<'_>, to: Option<SocketAddrV4>, train: &[u8], segment: u16) -> io::Result<usize> {
    let part = io::IoSlice::new(train);
    let mut name = to.map(raw_v4);
    let mut control = SegmentControl([0; SEGMENT_SPACE]);
    // SAFETY: all zero is a valid msghdr.
    let mut header = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    if let Some(name) = &mut name {
        header.msg_name = std::ptr::from_mut(name).cast();
        header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    }
    header.msg_iov = (&raw const part).cast_mut().cast();
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = SEGMENT_SPACE as _;
    // SAFETY: `control` has room for one cmsghdr and a u16, and is aligned for it, so CMSG_FIRSTHDR is not null and its data lie
    // inside; the u16 is written unaligned.
    unsafe {
        let cmsg = libc::CMSG_FIRSTHDR(&raw const header);
        (*cmsg).cmsg_level = libc::SOL_UDP;
        (*cmsg).cmsg_type = libc::UDP_SEGMENT;
        (*cmsg).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as libc::c_uint) as _;
        libc::CMSG_DATA(cmsg).cast::<u16>().write_unaligned(segment);
    }
    // SAFETY: the header refers to `part` (layout of iovec, documented by std), `name` and `control`, which live through the call and
    // are only read.
    check_len(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) })
}
