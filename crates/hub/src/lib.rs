//! Hub.
#![forbid(unsafe_code)]
