//! The hub stream: the messages between a Source Distributor and a P2PS.
