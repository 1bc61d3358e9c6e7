//! Both halves of the hub together.

mod hostile;
mod rejoin;
