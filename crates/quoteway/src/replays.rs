//! `[replay.NAME]`, and `quoteway replay`: recordings that a server plays itself, each a provider in a thread of its own, which the server dials.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use anyhow::anyhow;
use clap::Args;
use config::Replay;
use record::{Steering, when};
use server::http;
use server::roles::process::HttpArgs;
use server::roles::serve::{self, ServeArgs};
use tools::replay::{self, Renaming};

/// Providers in threads, which stop with this.
#[derive(Default)]
pub(crate) struct Replays {
    stop: Arc<AtomicBool>,
    /// How they are steered, for the server's administration.
    shown: http::Replays,
    threads: Vec<(String, JoinHandle<anyhow::Result<()>>)>,
}

impl Replays {
    /// Starts one, and gives the address at which it is to be dialled.
    pub(crate) fn start(&mut self, name: &str, args: replay::Args) -> anyhow::Result<SocketAddr> {
        let (flag, (ready, bound), called) = (self.stop.clone(), channel(), name.to_owned());
        let steering = Steering::default();
        let its = steering.clone();
        let thread = Builder::new().name(format!("replay {name}")).spawn(move || {
            // Nobody waits for the address any more only if the start has failed elsewhere.
            let ended = replay::serve(&args, &called, &its, &flag, |at| ready.send(at).unwrap_or_default());
            if let Err(error) = &ended {
                tracing::error!("replay {called} has ended: {error:#}");
            }
            ended
        })?;
        // Without an address it has ended before it was ready, and says why.
        match bound.recv() {
            Ok(at) => {
                self.shown.add(name, steering);
                self.threads.push((name.to_owned(), thread));
                Ok(at)
            }
            Err(_) => Err(joined(thread).err().unwrap_or_else(|| anyhow!("it has ended before it began"))),
        }
    }

    /// How they are steered.
    pub(crate) fn shown(&self) -> http::Replays {
        self.shown.clone()
    }

    /// Stops all and waits for them.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Release);
        let ended = |(name, thread)| joined(thread).map_err(|e| anyhow!("replay {name}: {e:#}"));
        self.threads.into_iter().try_for_each(ended)
    }
}

fn joined(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("the thread of the replay has failed")))
}

/// What the configuration says, as the command line would.
pub(crate) fn args_of(replay: &Replay) -> anyhow::Result<replay::Args> {
    let time = |text: &String| (!text.is_empty()).then(|| when::parse(text)).transpose();
    Ok(replay::Args {
        folders: replay.folders.iter().map(Into::into).collect(),
        services: replay.recorded_services.clone(),
        served_as: replay.served_as.clone(),
        renamings: replay.rename.iter().map(|text| Renaming::parse(text)).collect::<anyhow::Result<_>>()?,
        port: 0,
        bind: IpAddr::from([127, 0, 0, 1]),
        nip: None,
        speed: replay.speed.parse()?,
        from: time(&replay.from_time)?,
        to: time(&replay.to_time)?,
        by: replay.replay_clock.parse().map_err(|e: &str| anyhow!(e))?,
        shift_to_now: replay.shift_to_now,
        repeats: replay.repeat,
        paused: replay.paused,
        start_on_open: (replay.start_on_open > 0).then_some(replay.start_on_open as usize),
        items: replay.item_patterns.clone(),
        domains: replay.domain_numbers(),
        at: replay.at_times.iter().map(|text| when::parse(text)).collect::<Result<_, _>>()?,
        spin: false,
        interval: 0,
    })
}

/// Flags of `quoteway replay`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub source: replay::Args,
    /// Serve consumers by RSSL and WebSocket in this process, too, with a web page: Source Distributor and P2PS around the replay (quoteway serve)
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

/// Plays until it is stopped.
///
/// # Errors
/// A text for the user: the recording cannot be read, a port is taken.
pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<()> {
    if !args.serve {
        return replay::run(&args.source);
    }
    let mut replays = Replays::default();
    let at = replays.start(&name_of(&args.source.folders[0]), args.source.clone())?;
    let server = ServeArgs {
        routes: vec![at.to_string()],
        rssl_port: args.rssl_port,
        nip_port: args.nip_port,
        interface: args.interface.clone(),
        http: args.http.clone(),
        replays: replays.shown(),
        ..ServeArgs::default()
    };
    serve::run(&server).and(replays.end())
}

/// A replay is called as its folder is.
fn name_of(folder: &Path) -> String {
    let name = folder.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| "replay".to_owned())
}
