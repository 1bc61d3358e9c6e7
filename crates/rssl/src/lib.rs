//! Sessions.
#![forbid(unsafe_code)]
