//! `quoteway`: one binary for every role and tool.
#![forbid(unsafe_code)]

fn main() {}
