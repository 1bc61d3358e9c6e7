//! Listeners: accepting in bounded turns, and what happens when the process runs out of descriptors.

use std::cmp::Reverse;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::conn::Flags;
use super::{BASE, Due, Event, IN, ListenerId, TOKEN_LISTENER, Tcp};
use crate::clock;
use crate::sys::{self, Epoll};

/// Connections accepted from one listener in one poll; the rest wait for the next, behind the input of those there are.
pub const ACCEPTS_PER_TURN: usize = 64;

/// Pause of a listener that cannot accept. Nothing tells when descriptors are free again, so it tries.
const PAUSE: Duration = Duration::from_millis(100);

/// Errors that happened to one connection before it was accepted and that accept(2) passes on; the next may be well.
const OF_ONE_CONNECTION: [i32; 11] = [
    libc::EINTR,
    libc::ECONNABORTED,
    libc::EPROTO,
    libc::EPERM,
    libc::ENETDOWN,
    libc::ENOPROTOOPT,
    libc::EHOSTDOWN,
    libc::ENONET,
    libc::EHOSTUNREACH,
    libc::ENETUNREACH,
    libc::EOPNOTSUPP,
];

struct Listener {
    fd: OwnedFd,
    /// The caller wants connections.
    wanted: bool,
    /// The listener could not accept and waits for its time.
    paused: bool,
    /// The port is held, and connections to it are refused.
    refuses: bool,
    backlog: u32,
    registered: bool,
}

/// The listeners of a set. Their indices are never reused.
#[derive(Default)]
pub(super) struct Acceptors {
    listeners: Vec<Option<Listener>>,
    /// A descriptor kept for the moment when there are no others: with it a waiting connection can be taken in and turned away, where
    /// otherwise it would stay in the backlog and be reported for ever.
    reserve: Option<OwnedFd>,
}

impl Acceptors {
    pub(super) fn insert(&mut self, fd: OwnedFd, backlog: u32, epoll: &Epoll) -> io::Result<ListenerId> {
        if self.reserve.is_none() {
            self.reserve = sys::eventfd().ok();
        }
        let id = ListenerId(self.listeners.len() as u32);
        let mut listener = Listener { fd, wanted: true, paused: false, refuses: false, backlog, registered: false };
        listener.register(id, epoll)?;
        self.listeners.push(Some(listener));
        Ok(id)
    }

    pub(super) fn remove(&mut self, id: ListenerId) {
        if let Some(listener) = self.listeners.get_mut(id.index()) {
            *listener = None;
        }
    }

    fn get(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.listeners.get_mut(id.index())?.as_mut()
    }

    pub(super) fn set_accepting(&mut self, id: ListenerId, accepting: bool, epoll: &Epoll) -> io::Result<()> {
        let Some(listener) = self.get(id) else { return Ok(()) };
        listener.wanted = accepting;
        listener.register(id, epoll)
    }

    pub(super) fn set_refusing(&mut self, id: ListenerId, refuses: bool, epoll: &Epoll) -> io::Result<()> {
        let Some(listener) = self.get(id).filter(|listener| listener.refuses != refuses) else { return Ok(()) };
        listener.refuses = refuses;
        if refuses {
            listener.register(id, epoll)?;
            return sys::shutdown_read(listener.fd.as_fd());
        }
        sys::listen(listener.fd.as_fd(), listener.backlog)?;
        listener.register(id, epoll)
    }

    /// The pause of a listener is over.
    pub(super) fn resume(&mut self, id: ListenerId, epoll: &Epoll) -> io::Result<()> {
        let Some(listener) = self.get(id) else { return Ok(()) };
        listener.paused = false;
        listener.register(id, epoll)
    }
}

impl Listener {
    /// Makes the registration be what the state asks for. Level-triggered: what a turn leaves is reported again.
    fn register(&mut self, id: ListenerId, epoll: &Epoll) -> io::Result<()> {
        let wanted = self.wanted && !self.paused && !self.refuses;
        if wanted && !self.registered {
            epoll.add(self.fd.as_fd(), IN, u64::from(TOKEN_LISTENER | id.0))?;
        } else if !wanted && self.registered {
            epoll.remove(self.fd.as_fd())?;
        }
        self.registered = wanted;
        Ok(())
    }
}

impl Tcp {
    /// Accepts what waits, within the bound of a turn.
    pub(super) fn accept_from(&mut self, id: ListenerId, events: &mut Vec<Event>) -> io::Result<()> {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(listener) = self.acceptors.get(id).filter(|listener| listener.registered) else { return Ok(()) };
            match sys::accept(listener.fd.as_fd()) {
                Ok((fd, peer)) => {
                    if self.faults.as_mut().is_some_and(super::FaultPlan::draw_drop) {
                        continue;
                    }
                    let Some(peer) = peer else { continue };
                    match self.register(fd, Flags::default(), BASE) {
                        Ok(conn) => {
                            self.counters.accepted += 1;
                            events.push(Event::Accepted { listener: id, conn, peer });
                        }
                        // No memory for one more watch (ENOSPC, ENOMEM): it has been closed, which is all that can be done for it.
                        Err(e) => return self.pause(id, &e, events),
                    }
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(()),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        self.turn_away(id);
                        return self.pause(id, &e, events);
                    }
                    Some(errno) if OF_ONE_CONNECTION.contains(&errno) => {}
                    _ => return Err(e),
                },
            }
        }
        Ok(())
    }

    /// Takes waiting connections in on the reserve descriptor and closes them: their owners learn at once that there is no room.
    fn turn_away(&mut self, id: ListenerId) {
        let Acceptors { listeners, reserve } = &mut self.acceptors;
        let Some(Some(listener)) = listeners.get(id.index()) else { return };
        for _ in 0..ACCEPTS_PER_TURN {
            if reserve.take().is_none() {
                break;
            }
            let accepted = sys::accept(listener.fd.as_fd());
            let found = accepted.is_ok();
            drop(accepted);
            *reserve = sys::eventfd().ok();
            if !found {
                break;
            }
            self.counters.turned_away += 1;
        }
    }

    fn pause(&mut self, id: ListenerId, error: &io::Error, events: &mut Vec<Event>) -> io::Result<()> {
        let Some(listener) = self.acceptors.get(id) else { return Ok(()) };
        listener.paused = true;
        listener.register(id, &self.epoll)?;
        let until = clock::now() + PAUSE.as_nanos() as u64;
        self.due.push(Reverse((until, Due::Accept(id))));
        events.push(Event::AcceptFailed { listener: id, errno: error.raw_os_error().unwrap_or(libc::EIO) });
        Ok(())
    }
}
