//! Market data for C and C++: `include/quoteway.h`, which is the documentation of each function, over `client-io`; `include/quoteway.hpp` is C++17
//! on top of it. `tests/c.rs` compiles programs against both, and checks that header and library name the same functions.
//!
//! Functions return -1 with a code and a text for the calling thread. No panic crosses the boundary. No callback runs in a thread of the library.
//!
//! Here unsafe code is what comes and goes through pointers, as in `lbm-c` ([why](../../../docs/decisions/0005-c-library.md)).
#![allow(unreachable_pub, reason = "C reaches them by their names")]

mod arguments;
mod error;
mod posts;
mod publisher;
mod session;
mod subscription;
mod values;
