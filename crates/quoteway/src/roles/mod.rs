//! The processes of a deployment.

pub mod serve;
