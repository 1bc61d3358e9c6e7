//! `quoteway feed`: an exchange's file as a provider, or with a server around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::Builder;

use anyhow::anyhow;
use clap::Args;
use quoteway::roles::process::HttpArgs;
use quoteway::roles::serve::{self, ServeArgs};
use tools::exchange_feed;

/// What `quoteway feed` is told.
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
    let (stop, (ready, bound)) = (Arc::new(AtomicBool::new(false)), channel());
    let (source, flag) = (args.source.clone(), stop.clone());
    let provider = Builder::new().name("feed".into()).spawn(move || {
        // Nobody waits for the address any more only if the start has failed elsewhere.
        exchange_feed::serve(&source, &flag, |at| ready.send(at).unwrap_or_default())
    })?;
    let ended = |thread: std::thread::JoinHandle<anyhow::Result<()>>| {
        thread.join().unwrap_or_else(|_| Err(anyhow!("the thread of the feed has failed")))
    };
    // Without an address it has ended before it was ready, and says why.
    let Ok(at) = bound.recv() else { return ended(provider) };
    let server = ServeArgs {
        routes: vec![at.to_string()],
        rssl_port: args.rssl_port,
        nip_port: args.nip_port,
        interface: args.interface.clone(),
        http: args.http.clone(),
        ..ServeArgs::default()
    };
    let served = serve::run(&server);
    stop.store(true, Ordering::Release);
    served.and(ended(provider))
}
