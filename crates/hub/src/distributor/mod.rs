//! The Source Distributor: the side that faces providers.
