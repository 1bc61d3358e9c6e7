//! What a context does when the kernel does not give what it has received.

use super::*;

/// `ENOMEM`: what a kernel short of memory says.
const NO_MEMORY: i32 = 12;

#[test]
fn a_receive_that_fails_is_counted_and_what_waits_comes_later() {
    let options = Options::default();
    let mut inbound = Inbound::new(&options, Ipv4Addr::LOCALHOST).expect("sockets");
    let mut io = Io::new().expect("descriptors");
    let bind = || UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &UdpOptions::default()).expect("a port");
    let (mut group, mut session, mut peer) = (bind(), bind(), bind());
    for socket in [&mut group, &mut session] {
        assert!(peer.send(Some(socket.local_addr()), b"no packet of anything").expect("sent"));
        assert!(socket.wait_readable(Some(Duration::from_secs(30))).expect("waited"));
        socket.fail_receiving(Some(NO_MEMORY));
    }
    let at = group.local_addr();
    let watch = io.watch(group.as_fd(), Watch::Group(0)).expect("watched");
    inbound.groups.push(Some(Group { address: *at.ip(), port: at.port(), socket: group, watch, users: 1 }));
    let watch = io.watch(session.as_fd(), Watch::Group(1)).expect("watched");
    inbound.lines.push(Some(Line::Lbtru { socket: Box::new(session), watch }));
    let mut sources = Sources::new(io, crate::requests::Requests::new(&options).expect("options"));
    let mut events = |_: &mut Sources, _: &crate::Delivery<'_>| panic!("nothing was sent");

    inbound.receive_group(1, 0, &mut sources, &mut events);
    inbound.receive_session(1, 0, &mut sources, &mut events);
    assert_eq!((inbound.receive_failures, inbound.malformed), (2, 0));

    let Some(Some(Group { socket, .. })) = inbound.groups.first_mut() else { panic!("the group is there") };
    socket.fail_receiving(None);
    let Some(Some(Line::Lbtru { socket, .. })) = inbound.lines.first_mut() else { panic!("the line is there") };
    socket.fail_receiving(None);
    inbound.receive_group(2, 0, &mut sources, &mut events);
    inbound.receive_session(2, 0, &mut sources, &mut events);
    assert_eq!((inbound.receive_failures, inbound.malformed), (2, 2), "what waited was looked at");
}
