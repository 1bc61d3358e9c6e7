//! Topic messaging for C: `include/quoteway_lbm.h`, in the shape that LBM programmers know, over `lbm-io`.
//!
//! The header is written by hand and is the documentation of each function; `tests/c.rs` compiles programs against it, and checks
//! that header and library name the same functions.
//!
//! What holds everywhere:
//!
//! * Functions return 0, or -1 with a code and a text for the calling thread (`qw_lbm_errnum`, `qw_lbm_errmsg`). A null argument, or
//!   a text that is not UTF-8, is such an error. What a caller has deleted it must not use again: that cannot be noticed.
//! * No panic crosses the boundary: it becomes the error `QW_LBM_EINTERNAL`, and the context it happened in refuses from then on.
//! * A context is guarded by one lock. Callbacks run with it held, on the context's thread (embedded) or in
//!   `qw_lbm_context_process_events` (sequential); a callback can send, flush, request and respond, since it has the context's sending
//!   half for the time of the call, and nothing else.
//!
//! This crate and `net` are the only ones with unsafe code: here it is what comes and goes through pointers.
#![allow(unreachable_pub, reason = "C reaches them by their names")]

mod arguments;
mod attributes;
mod callbacks;
mod context;
mod engine;
mod error;
mod log;
mod observer;
mod queues;
mod receivers;
mod requests;
mod sources;
