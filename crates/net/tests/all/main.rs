//! The tests of sockets. Those that change limits of the process or count all of its memory are programs of their own, beside this one.

mod outages;
mod tcp;
mod tls;
mod udp;
