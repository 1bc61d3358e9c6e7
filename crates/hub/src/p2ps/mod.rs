//! The P2PS: the side that faces consumers.
