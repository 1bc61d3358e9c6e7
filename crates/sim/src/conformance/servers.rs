//! The servers of a scenario's consumers and providers: machines in memory ([`Chain`](super::chain::Chain)), or processes behind sockets.

/// Something that left the servers. Connections are numbered as they came up, consumers and providers together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Out {
    /// A message for a provider.
    ToProvider(u32, Vec<u8>),
    /// The connection of a provider is closed, and why, as far as that is known.
    ProviderClosed(u32, String),
    /// A message for a consumer.
    ToConsumer(u32, Vec<u8>),
    /// The connection of a consumer is closed, and why, as far as that is known.
    ConsumerClosed(u32, String),
}

/// What happens to the servers themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed<'a> {
    /// So many nanoseconds pass.
    Time(u64),
    /// A Source Distributor ends.
    Dies(usize),
    /// The server starts again.
    Starts(usize),
    /// So many bytes have not been taken by the connection of a consumer.
    Backlog(u32, usize),
    /// An operator blocks `SERVICE/ITEM`.
    Blocks(&'a str),
    /// An operator unblocks `SERVICE/ITEM`.
    Unblocks(&'a str),
    /// An operator has a consumer go elsewhere, and says why.
    Dismisses(u32, &'a str),
    /// An operator has a service served by this provider.
    Switches(&'a str, u32),
}

/// Servers that consumers and providers connect to.
///
/// Errors are texts of what went wrong, for the report of the step.
pub trait Servers {
    /// A provider is connected to Source Distributor `at`: it was dialled by a route (numbers from 0), or came by itself.
    ///
    /// # Errors
    /// No connection came about.
    fn session_up(&mut self, session: u32, at: usize, route: Option<u16>) -> Result<(), String>;

    /// The connection of a provider ends, by its own doing or because the servers have ended it.
    fn session_down(&mut self, session: u32);

    /// A consumer is connected to P2PS `at`.
    ///
    /// # Errors
    /// No connection came about.
    fn client_up(&mut self, client: u32, at: usize) -> Result<(), String>;

    /// The connection of a consumer ends, by its own doing or because the servers have ended it.
    fn client_down(&mut self, client: u32);

    /// A provider sends a message.
    ///
    /// # Errors
    /// It is not connected.
    fn provider_message(&mut self, session: u32, bytes: &[u8]) -> Result<(), String>;

    /// A consumer sends a message.
    ///
    /// # Errors
    /// It is not connected.
    fn consumer_message(&mut self, client: u32, bytes: &[u8]) -> Result<(), String>;

    /// Something happens to the servers themselves.
    ///
    /// # Errors
    /// It cannot be done, or not here.
    fn happens(&mut self, deed: Deed<'_>) -> Result<(), String>;

    /// What has left the servers since the last call, after all that was said to them has had its effect.
    ///
    /// # Errors
    /// They do not answer any more.
    fn take(&mut self) -> Result<Vec<Out>, String>;

    /// Waits for something more to leave the servers; `false` if nothing will.
    fn wait(&mut self) -> bool {
        false
    }

    /// Whether [`Out::ConsumerClosed`] and [`Out::ProviderClosed`] say why: over a network nobody is told.
    fn says_why_closed(&self) -> bool {
        true
    }
}
