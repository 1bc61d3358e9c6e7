//! The link between two stages: TCP over loopback, or what the hub's other transports are made of.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::str::FromStr;

use super::{Wait, pair};

/// Bytes of a datagram at most: loopback takes that many in one piece.
const DATAGRAM: usize = 60_000;
/// What may wait in a socket of datagrams.
const BUFFER: usize = 8 << 20;
/// The end of a stream of datagrams is an empty one, so often.
const ENDS: usize = 3;

/// What the link in the middle of a chain is, where the hub would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Middle {
    /// TCP, as all others.
    #[default]
    Tcp,
    /// UDP to one receiver. Nothing repairs what is lost: for rates that the receiver takes.
    Udp,
    /// UDP to a group of one receiver; likewise.
    Multicast,
    /// A socket of the host's memory.
    Local,
}

impl FromStr for Middle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            "multicast" => Ok(Self::Multicast),
            "local" => Ok(Self::Local),
            _ => Err(format!("`{text}`: a link is tcp, udp, multicast or local")),
        }
    }
}

/// The sending end.
pub(super) enum Out {
    Tcp(TcpStream),
    Datagrams(UdpSocket),
    Local(UnixStream),
}

/// The receiving end.
pub(super) enum In {
    Tcp(TcpStream),
    Datagrams(UdpSocket),
    Local(UnixStream),
}

/// A link with the socket buffers that were asked for; datagrams have larger ones.
pub(super) fn link(of: Middle, buffer: Option<usize>) -> io::Result<(Out, In)> {
    match of {
        Middle::Tcp => {
            let (out, back) = pair(buffer)?;
            Ok((Out::Tcp(out), In::Tcp(back)))
        }
        Middle::Udp => {
            let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            let to = back.local_addr()?;
            datagrams(back, |out| out.connect(to))
        }
        Middle::Multicast => {
            let group = Ipv4Addr::new(239, 192, 63, 77);
            let back = UdpSocket::bind(SocketAddrV4::new(group, 0))?;
            back.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
            let to = SocketAddrV4::new(group, back.local_addr()?.port());
            datagrams(back, |out| out.set_multicast_ttl_v4(0).and_then(|()| out.connect(to)))
        }
        Middle::Local => {
            let (out, back) = UnixStream::pair()?;
            if let Some(bytes) = buffer {
                net::floor::set_buffers(&out, &back, bytes)?;
            }
            Ok((Out::Local(out), In::Local(back)))
        }
    }
}

fn datagrams(back: UdpSocket, join: impl FnOnce(&UdpSocket) -> io::Result<()>) -> io::Result<(Out, In)> {
    let out = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    join(&out)?;
    net::floor::set_buffers(&out, &back, BUFFER)?;
    Ok((Out::Datagrams(out), In::Datagrams(back)))
}

impl Out {
    /// Sends all of some bytes.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => (&*stream).write_all(bytes),
            Self::Local(stream) => (&*stream).write_all(bytes),
            Self::Datagrams(socket) => bytes.chunks(DATAGRAM).try_for_each(|chunk| socket.send(chunk).map(drop)),
        }
    }

    /// Nothing comes behind it; streams say so when they are closed. Its owner alone calls this: other processes may have copies.
    pub(super) fn end(&self) {
        if let Self::Datagrams(socket) = self {
            for _ in 0..ENDS {
                // Whoever received may be gone.
                let _ = socket.send(&[]);
            }
        }
    }
}

impl In {
    /// Reads some bytes, 0 at the end. Only TCP waits otherwise than by blocking.
    pub(super) fn read(&self, wait: Wait, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => wait.read(stream, buf),
            Self::Local(stream) => (&*stream).read(buf),
            Self::Datagrams(socket) => socket.recv(buf),
        }
    }
}
