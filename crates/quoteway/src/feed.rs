//! `quoteway feed`: an exchange's file as a provider, or with a server around it.

use clap::Args;
use server::roles::process::HttpArgs;
use server::roles::serve::{self, ServeArgs};
use tools::exchange_feed;

use crate::feeds::Feeds;

/// Flags of `quoteway feed`.
#[derive(Debug, Clone, Args)]
pub(crate) struct FeedArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub source: exchange_feed::Args,
    /// Serve consumers by RSSL and WebSocket in this process, too: Source Distributor and P2PS around the feed (quoteway serve)
    #[arg(long, conflicts_with_all = ["nip", "port", "bind"])]
    pub serve: bool,
    /// With --serve: port on which consumers connect; 0 takes a free one [default: 14002]
    #[arg(long, value_name = "PORT", requires = "serve")]
    pub rssl_port: Option<u16>,
    /// With --serve: port on which non-interactive providers connect; 0 takes a free one [default: 14003]
    #[arg(long, value_name = "PORT", requires = "serve")]
    pub nip_port: Option<u16>,
    /// With --serve: address to listen on [default: all]
    #[arg(long, value_name = "ADDRESS", requires = "serve")]
    pub interface: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub http: HttpArgs,
}

/// Publishes until it is stopped.
///
/// # Errors
/// A text for the user: the file cannot be read, a port is taken.
pub(crate) fn run(args: &FeedArgs) -> anyhow::Result<()> {
    if !args.serve {
        return exchange_feed::run(&args.source);
    }
    let mut feeds = Feeds::default();
    let at = feeds.start("feed", args.source.clone())?;
    let server = ServeArgs {
        routes: vec![at.to_string()],
        rssl_port: args.rssl_port,
        nip_port: args.nip_port,
        interface: args.interface.clone(),
        http: args.http.clone(),
        feeds: feeds.standing(),
        ..ServeArgs::default()
    };
    serve::run(&server).and(feeds.end())
}
