//! Receiving: `recvmmsg` into slabs that the caller borrows.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::slice;

use super::{Offload, UdpSocket};
use crate::sys::check_len;

/// Datagrams or trains that one call receives, at most.
const SLOTS: usize = 64;
/// The longest train: what a UDP length can say.
const TRAIN_MAX: usize = 65_536;
/// From one slot of that size to the next: the beginnings of slots, which is all that short datagrams use, must not compete for the
/// same few lines of a cache.
const STRIDE: usize = TRAIN_MAX + 1_472;
/// Room for the control data of one datagram: train segment, drop counter, destination, 24 to 32 bytes each.
const CONTROL: usize = 96;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// What is known of a slot's content.
#[derive(Clone, Copy, Default)]
struct Meta {
    length: u32,
    segment: u16,
    destination: Option<Ipv4Addr>,
}

/// What the kernel writes beside the datagrams. It refers to itself, so it stays where it is.
struct Headers {
    heads: [libc::mmsghdr; SLOTS],
    parts: [libc::iovec; SLOTS],
    names: [libc::sockaddr_in; SLOTS],
    controls: [Control; SLOTS],
    metas: [Meta; SLOTS],
}

/// Memory that datagrams are received into: one for all sockets of a thread. What is received is borrowed from it until the next call.
pub struct Slabs {
    memory: NonNull<[u8]>,
    headers: NonNull<Headers>,
    /// Trains of one call.
    trains: usize,
    /// Bytes of a slot as the headers have it; 0 = not laid out yet.
    slot: usize,
    /// From one slot to the next.
    stride: usize,
    slots: usize,
}

// SAFETY: both pointers own what they point to, and nothing else does; the raw pointers inside `Headers` point to the same two blocks.
unsafe impl Send for Slabs {}

impl Slabs {
    /// `trains` (1 to 64) is how many trains of up to 64 KB one call receives; of datagrams without GRO, always 64. Memory that is
    /// never written is not used.
    pub fn new(trains: usize) -> Self {
        let memory = Box::leak(vec![0u8; SLOTS * STRIDE].into_boxed_slice());
        // SAFETY: all zero is valid for every field: integers, plain addresses, null pointers, `None` of an Option<Ipv4Addr> is
        // written below before it is read.
        let mut headers: Box<Headers> = unsafe { Box::new(MaybeUninit::zeroed().assume_init()) };
        headers.metas = [Meta::default(); SLOTS];
        let trains = trains.clamp(1, SLOTS);
        let headers = Box::leak(headers).into();
        Self { memory: memory.into(), headers, trains, slot: 0, stride: 0, slots: 0 }
    }

    /// Divides the memory into `slots` slots of `slot` bytes.
    fn lay_out(&mut self, slot: usize, slots: usize) {
        assert!(slot <= TRAIN_MAX && slots <= SLOTS);
        // SAFETY: `headers` is valid and ours alone; no borrow of it lives while `self` is borrowed mutably.
        let headers = unsafe { self.headers.as_mut() };
        let base = self.memory.cast::<u8>();
        self.slot = slot;
        self.stride = if slot > TRAIN_MAX / 2 { STRIDE } else { slot };
        self.slots = slots;
        for i in 0..self.slots {
            // SAFETY: `i < SLOTS` and slot <= stride <= STRIDE, so the slot lies inside the memory.
            let start = unsafe { base.add(i * self.stride) };
            headers.parts[i] = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: slot };
            let head = &mut headers.heads[i].msg_hdr;
            head.msg_name = (&raw mut headers.names[i]).cast();
            head.msg_iov = &raw mut headers.parts[i];
            head.msg_iovlen = 1;
            head.msg_control = (&raw mut headers.controls[i]).cast();
            headers.restore(i);
        }
    }

    /// One `recvmmsg`; returns how many slots it filled.
    fn fill(&mut self, fd: BorrowedFd<'_>, slot: usize, slots: usize) -> io::Result<usize> {
        if (self.slot, self.slots) != (slot, slots) {
            self.lay_out(slot, slots);
        }
        // SAFETY: `headers` is valid and ours alone. `lay_out` has made the first `slots` headers point to slots of `slot` bytes, and
        // to names and control data of the sizes they state; nobody else has a reference to any of them now, since `self` is borrowed
        // mutably. A null time-out is allowed.
        let filled = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                (&raw mut (*self.headers.as_ptr()).heads).cast(),
                self.slots as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        check_len(filled as isize)
    }
}

impl Default for Slabs {
    /// Sixteen trains: a megabyte.
    fn default() -> Self {
        Self::new(16)
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        // SAFETY: both were leaked from boxes in `new` and are not used any more.
        unsafe {
            drop(Box::from_raw(self.memory.as_ptr()));
            drop(Box::from_raw(self.headers.as_ptr()));
        }
    }
}

impl fmt::Debug for Slabs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slabs({} bytes)", self.memory.len())
    }
}

impl Headers {
    /// Gives the kernel the full room of a slot's name and control data again, which it has overwritten with what it used.
    #[inline]
    fn restore(&mut self, i: usize) {
        let head = &mut self.heads[i].msg_hdr;
        head.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        head.msg_controllen = CONTROL as _;
        head.msg_flags = 0;
    }
}

/// What the control data of a datagram say.
#[derive(Default)]
struct Notes {
    segment: Option<u16>,
    drops: Option<u32>,
    destination: Option<Ipv4Addr>,
}

impl Notes {
    fn read(head: &libc::msghdr) -> Self {
        let mut notes = Self::default();
        // SAFETY: the kernel has filled in `msg_control` and `msg_controllen` of this header; the macros stay within them.
        let mut cmsg = unsafe { libc::CMSG_FIRSTHDR(head) };
        while !cmsg.is_null() {
            // SAFETY: not null, so a whole cmsghdr; its data are read unaligned, with the type that the kernel gives them.
            unsafe {
                let data = libc::CMSG_DATA(cmsg);
                match ((*cmsg).cmsg_level, (*cmsg).cmsg_type) {
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        notes.segment = u16::try_from(data.cast::<libc::c_int>().read_unaligned()).ok();
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => notes.drops = Some(data.cast::<u32>().read_unaligned()),
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                        notes.destination = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)));
                    }
                    _ => {}
                }
                cmsg = libc::CMSG_NXTHDR(head, cmsg);
            }
        }
        notes
    }
}

impl UdpSocket {
    /// Receives what is there, as much as one call takes; empty if nothing is.
    ///
    /// # Errors
    /// The kernel's; none is expected. And what [`fail_receiving`](Self::fail_receiving) says.
    pub fn recv<'s>(&mut self, slabs: &'s mut Slabs) -> io::Result<Received<'s>> {
        if let Some(errno) = self.fault {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let (slot, slots) = match self.gro {
            Offload::On => (TRAIN_MAX, slabs.trains),
            // A byte more than the longest, so that a longer one shows.
            _ => ((self.datagram_max + 1).next_multiple_of(64), SLOTS),
        };
        let filled = loop {
            self.counters.recv_calls += 1;
            match slabs.fill(self.fd.as_fd(), slot, slots) {
                Ok(filled) => break filled,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break 0,
                // The report of a datagram that we sent.
                Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => self.counters.refused += 1,
                Err(e) => return Err(e),
            }
        };
        // SAFETY: `headers` is valid and ours alone while `slabs` is borrowed mutably.
        let headers = unsafe { slabs.headers.as_mut() };
        for i in 0..filled {
            let head = &headers.heads[i];
            let mut meta = Meta { length: head.msg_len, segment: 0, destination: None };
            if head.msg_hdr.msg_controllen != 0 {
                let notes = Notes::read(&head.msg_hdr);
                if let Some(drops) = notes.drops {
                    self.drops.note(drops);
                }
                meta.segment = notes.segment.unwrap_or(0);
                meta.destination = notes.destination;
            }
            let segment = if meta.segment == 0 { meta.length } else { u32::from(meta.segment) };
            if head.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 || segment as usize > self.datagram_max {
                self.counters.truncated += u64::from(meta.length.div_ceil(segment.max(1)));
                meta.length = 0;
            } else {
                self.counters.datagrams_received += u64::from(meta.length.div_ceil(segment.max(1)).max(1));
                self.counters.bytes_received += u64::from(meta.length);
            }
            headers.metas[i] = meta;
            headers.restore(i);
        }
        Ok(Received { slabs, filled })
    }
}

/// What one call received, in order.
#[derive(Debug)]
pub struct Received<'s> {
    slabs: &'s Slabs,
    filled: usize,
}

impl<'s> Received<'s> {
    /// Whether nothing was there.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Whether all slabs were filled: there may be more to receive at once.
    pub fn is_full(&self) -> bool {
        self.filled == self.slabs.slots
    }

    /// Datagrams and trains.
    pub fn iter(&self) -> Arrivals<'s> {
        Arrivals { slabs: self.slabs, at: 0, filled: self.filled }
    }
}

impl<'s> IntoIterator for &Received<'s> {
    type Item = Arrival<'s>;
    type IntoIter = Arrivals<'s>;

    fn into_iter(self) -> Arrivals<'s> {
        self.iter()
    }
}

/// The datagrams and trains of [`Received`].
#[derive(Debug)]
pub struct Arrivals<'s> {
    slabs: &'s Slabs,
    at: usize,
    filled: usize,
}

impl<'s> Iterator for Arrivals<'s> {
    type Item = Arrival<'s>;

    #[inline]
    fn next(&mut self) -> Option<Arrival<'s>> {
        while self.at < self.filled {
            let i = self.at;
            self.at += 1;
            // SAFETY: `headers` is valid, and not written while `slabs` is borrowed.
            let headers = unsafe { self.slabs.headers.as_ref() };
            let (meta, name) = (headers.metas[i], headers.names[i]);
            if meta.length == 0 {
                continue;
            }
            // SAFETY: the slot lies inside the memory, the kernel wrote at most its size there (`msg_len` without MSG_TRUNC), and
            // nobody writes the memory while `slabs` is borrowed.
            let bytes = unsafe {
                let start = self.slabs.memory.cast::<u8>().add(i * self.slabs.stride);
                slice::from_raw_parts(start.as_ptr(), (meta.length as usize).min(self.slabs.slot))
            };
            let source =
                SocketAddrV4::new(Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr)), u16::from_be(name.sin_port));
            let segment = if meta.segment == 0 { bytes.len() } else { usize::from(meta.segment) };
            return Some(Arrival { source, destination: meta.destination, bytes, segment });
        }
        None
    }
}

/// A datagram, or a train of them from one source. Empty datagrams are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'s> {
    /// Who has sent it.
    pub source: SocketAddrV4,
    /// To which address, if [`UdpOptions::destination`](super::UdpOptions::destination) asks for it.
    pub destination: Option<Ipv4Addr>,
    /// The datagrams, back to back.
    pub bytes: &'s [u8],
    /// Length of each but the last, which may be shorter.
    pub segment: usize,
}

impl<'s> Arrival<'s> {
    /// The datagrams one by one.
    #[inline]
    pub fn datagrams(&self) -> slice::Chunks<'s, u8> {
        self.bytes.chunks(self.segment.max(1))
    }
}
