//! A thread that does nothing but turns.

use std::io;
use std::time::Duration;

use net::Waker;

use crate::{Context, Events};

/// A thread's behaviour while there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Idle {
    /// Sleeps in the kernel: `file_descriptor_management_behavior pend`.
    #[default]
    Block,
    /// Asks again and again and gives its core to others in between.
    Yield,
    /// Asks again and again: `busy_wait`. Not with more such threads than cores.
    Spin,
}

impl Context {
    /// Takes turns until `stop` says so; it is asked after each turn. Pin the thread before with [`net::affinity`].
    ///
    /// # Errors
    /// See [`Context::poll`].
    pub fn run(
        &mut self,
        idle: Idle,
        events: &mut impl Events,
        mut stop: impl FnMut(&mut Self) -> bool,
    ) -> io::Result<()> {
        loop {
            let wait = if idle == Idle::Block { None } else { Some(Duration::ZERO) };
            let delivered = self.poll(wait, events)?;
            if stop(self) {
                return Ok(());
            }
            match idle {
                Idle::Yield if delivered == 0 => std::thread::yield_now(),
                Idle::Spin if delivered == 0 => std::hint::spin_loop(),
                _ => {}
            }
        }
    }

    /// Ends the wait of a [`Context::poll`] from another thread.
    pub fn waker(&self) -> Waker {
        self.tcp().waker()
    }
}
