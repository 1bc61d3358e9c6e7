//! The processes of a deployment.

pub mod demo;
pub mod serve;
