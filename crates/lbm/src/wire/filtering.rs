//! Source-side filtering: a source tells each receiver of a session where to say which topics it wants, and leaves out the others.

use core::net::Ipv4Addr;

use super::header::Header;

/// Code of [`FilterInit`].
const INIT: u8 = 0x10;
/// Code of [`FilterRequest`].
const REQUEST: u8 = 0x11;
/// Flag of [`FilterInit`]: nothing is sent that was not asked for.
const DEFAULT_EXCLUDE: u8 = 0x20;
/// Flag of [`FilterInit`], ours: [`FilterInit::by_receiver`].
const BY_RECEIVER: u8 = 0x01;
/// Mode of [`FilterRequest`].
const EXCLUDE: u8 = 1;

/// What a source says to a receiver first: until it asks for topics it gets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterInit {
    /// Number of the session at the source.
    pub transport: u32,
    /// Number of the receiver there.
    pub client: u32,
    /// Port of the source that takes [`FilterRequest`]s by TCP.
    pub port: u16,
    /// Address of that port.
    pub address: Ipv4Addr,
    /// Of topics with queues messages for other receivers are left out, too. Receivers that do not know of it take them for lost.
    pub by_receiver: bool,
}

impl FilterInit {
    /// The body of the header, as [`FilterInit::header`] wants it.
    pub fn body(&self) -> [u8; 18] {
        let mut body = [0; 18];
        body[0] = DEFAULT_EXCLUDE | if self.by_receiver { BY_RECEIVER } else { 0 };
        body[2..6].copy_from_slice(&self.transport.to_be_bytes());
        body[6..10].copy_from_slice(&self.client.to_be_bytes());
        body[10..12].copy_from_slice(&self.port.to_be_bytes());
        body[14..].copy_from_slice(&self.address.octets());
        body
    }

    /// The header of a body.
    pub fn header(body: &[u8; 18]) -> Header<'_> {
        Header::Unknown { code: INIT, body }
    }

    /// Reads a header; `None` if it is another one, or one by which everything is sent.
    pub fn of(header: &Header<'_>) -> Option<Self> {
        let Header::Unknown { code: INIT, body } = header else { return None };
        let &[flags, _, t0, t1, t2, t3, c0, c1, c2, c3, p0, p1, _, _, a0, a1, a2, a3] = *body else { return None };
        (flags & DEFAULT_EXCLUDE != 0).then_some(Self {
            transport: u32::from_be_bytes([t0, t1, t2, t3]),
            client: u32::from_be_bytes([c0, c1, c2, c3]),
            port: u16::from_be_bytes([p0, p1]),
            address: Ipv4Addr::new(a0, a1, a2, a3),
            by_receiver: flags & BY_RECEIVER != 0,
        })
    }
}

/// A receiver wants a topic of the session, or wants it no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRequest {
    /// Whether it wants the topic.
    pub include: bool,
    /// Of [`FilterInit`].
    pub transport: u32,
    /// The topic's index.
    pub topic: u32,
    /// Of [`FilterInit`].
    pub client: u32,
}

impl FilterRequest {
    /// The body of the header, as [`FilterRequest::header`] wants it.
    pub fn body(&self) -> [u8; 14] {
        let mut body = [0; 14];
        body[1] = if self.include { 0 } else { EXCLUDE };
        body[2..6].copy_from_slice(&self.transport.to_be_bytes());
        body[6..10].copy_from_slice(&self.topic.to_be_bytes());
        body[10..].copy_from_slice(&self.client.to_be_bytes());
        body
    }

    /// The header of a body.
    pub fn header(body: &[u8; 14]) -> Header<'_> {
        Header::Unknown { code: REQUEST, body }
    }

    /// Reads a header; `None` if it is another one.
    pub fn of(header: &Header<'_>) -> Option<Self> {
        let Header::Unknown { code: REQUEST, body } = header else { return None };
        let &[_, mode, t0, t1, t2, t3, i0, i1, i2, i3, c0, c1, c2, c3] = *body else { return None };
        (mode <= EXCLUDE).then_some(Self {
            include: mode != EXCLUDE,
            transport: u32::from_be_bytes([t0, t1, t2, t3]),
            topic: u32::from_be_bytes([i0, i1, i2, i3]),
            client: u32::from_be_bytes([c0, c1, c2, c3]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::super::lbmc::{self, Message};
    use super::*;

    #[test]
    fn both_come_back_from_control_messages() {
        let address = Ipv4Addr::new(10, 1, 1, 10);
        let init = FilterInit { transport: 7, client: 0xC0FF_EE00, port: 14_391, address, by_receiver: false };
        let of_queues = FilterInit { by_receiver: true, ..init };
        assert_eq!(FilterInit::of(&FilterInit::header(&of_queues.body())), Some(of_queues));
        let request = FilterRequest { include: false, transport: 7, topic: 42, client: 0xC0FF_EE00 };
        let mut bytes = [0; 64];
        let mut w = Writer::new(&mut bytes);
        let (a, b) = (init.body(), request.body());
        lbmc::encode_control(&mut w, &[FilterInit::header(&a), FilterRequest::header(&b)]).expect("fits");
        let headers: Vec<_> =
            Message::decode(w.written()).expect("ours").0.headers().map(|h| h.expect("good")).collect();
        assert_eq!((FilterInit::of(&headers[0]), FilterRequest::of(&headers[0])), (Some(init), None));
        assert_eq!((FilterInit::of(&headers[1]), FilterRequest::of(&headers[1])), (None, Some(request)));
        assert_eq!(w.written()[4..8], [0x11, 20, 0x20, 0], "flags, then the kind of transport");
    }
}
