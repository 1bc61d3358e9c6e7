//! `quoteway demo`: the whole system in one process, each hop a socket as in production, and a view of live quotes.

use anyhow::anyhow;
use config::{Config, Route};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use clap::Args;

use feed::replay::ReplaySpeed;
use feed::replay::market::ReplayConfig;
use server::addresses::show;
use server::agents::lifecycle::Lifecycle;
use server::agents::monitor::MonitorHandle;
use server::agents::server::{Addresses, Server};
use server::http::{self, Running, facts};
use server::roles::process::{HttpArgs, incarnation};
use server::roles::serve::about;
use tools::source::serve::{Fault, SourceSettings, serve};
use tools::ui::{self, ClientLine, Command};

/// What the demo is told.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Items to watch; any ordinary instrument name is answered
    #[arg(value_name = "ITEM")]
    pub items: Vec<String>,
    /// Folder of recorded data to replay (US equity ticks); other names come from the built-in market
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Replay and market so many times faster than real time
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Port on which consumers connect; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 14002)]
    pub rssl_port: u16,
    /// Port on which non-interactive providers connect; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 14003)]
    pub nip_port: u16,
    /// Address to listen on, so that other machines can connect
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: std::net::IpAddr,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub http: HttpArgs,
    /// Plain lines instead of a screen
    #[arg(long)]
    pub no_ui: bool,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
}

fn speed(text: &str) -> anyhow::Result<f64> {
    let factor: f64 = text.parse().map_err(|_| anyhow!("not a number"))?;
    if factor.is_finite() && factor > 0.0 { Ok(factor) } else { Err(anyhow!("must be over 0")) }
}

/// How long the demo may take to end in order once it is told to.
const LAST_TURN: Duration = Duration::from_secs(3);

/// Watched when nothing is named: recorded ones first.
const ITEMS: [&str; 12] =
    ["IBM.N", "AIG.N", "BAC.N", "SPY.P", "TRI.N", "MSFT.O", "AAPL.O", "VOD.L", "SAPG.DE", "7203.T", "EUR=", "XAU="];

/// Shows the demo until the person ends it.
///
/// # Errors
/// A text for the user: a port is taken, recorded data cannot be read.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    net::signal::install().map_err(|e| anyhow!("signals cannot be caught: {e}"))?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut sleeper = net::Sleeper::new()?;
    net::signal::wake(&sleeper.waker());
    let flag = stop.clone();
    // Signals set the flag that all threads look at. There is no configuration to read again: a hang-up is the terminal's end.
    let _ = Builder::new().name("signals".into()).spawn(move || {
        while net::signal::stop_requested() == 0 && !net::signal::take_reload() && sleeper.sleep(None).is_ok() {}
        flag.store(true, Ordering::Release);
        // Reading the keys of a terminal that has just gone may never return: nothing is lost if the demo ends without that.
        std::thread::sleep(LAST_TURN);
        std::process::exit(1);
    });
    let (faults, played) = channel();
    let (source, provider) = start_source(args, &stop, played)?;
    let config = configuration(args, provider);
    let mut server = Server::new(&config, incarnation())?;
    let addresses = server.addresses();
    let same = config.clone();
    let server_monitors = server.monitors();
    let life = Lifecycle::new(config.clone(), server_monitors.clone(), Box::new(move || Ok(same.clone())));
    let web = http::start(&config.http, about(&config, addresses, "demo"), &life, None).map_err(anyhow::Error::msg)?;
    let waker = server.io().tcp().waker();
    let flag = stop.clone();
    let serving = Builder::new()
        .name("server".into())
        .spawn(move || server.run(|| flag.load(Ordering::Acquire)).map_err(anyhow::Error::from))?;

    if let Some(web) = &web {
        web.remember(SERVICE, &watchlist(args));
    }
    let view = ui::Settings {
        clients: Some(clients(server_monitors)),
        commands: commands(&faults),
        ..view(args, addresses, web.as_ref())
    };
    let shown = ui::run(view, &stop);
    stop.store(true, Ordering::Release);
    waker.wake();
    let ended = |thread: JoinHandle<anyhow::Result<()>>| {
        thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the demo has failed")))
    };
    shown.and(ended(serving)).and(ended(source))
}

type SourceThread = JoinHandle<anyhow::Result<()>>;

/// Asks the serving threads who is connected. One that does not answer has nobody to tell of.
fn clients(monitors: Vec<MonitorHandle>) -> Box<dyn Fn() -> Vec<ClientLine>> {
    Box::new(move || {
        let mut lines = Vec::new();
        for (number, handle) in monitors.iter().enumerate() {
            let mut from = Some(0);
            while let Some(begin) = from {
                let after = Some((number, begin));
                let filter = facts::Filter { limit: facts::PAGE, after, ..facts::Filter::default() };
                let answer = handle.answer(move |thread| facts::clients(thread, number, &filter));
                let (some, next) = answer.unwrap_or_default();
                from = next;
                lines.extend(some.into_iter().map(|client| ClientLine {
                    user: client.user,
                    application: if client.application.is_empty() { client.program } else { client.application },
                    address: client.address,
                    protocol: client.protocol,
                    items: client.items,
                    waiting_bytes: client.queued_bytes,
                    connected_s: client.connected_s,
                }));
            }
        }
        lines
    })
}

/// Keys that break the source, and mend it when they are pressed again.
fn commands(faults: &Sender<Fault>) -> Vec<Command> {
    let toggle = |key, what, [first, second]: [(Fault, &'static str); 2]| {
        let (faults, mut is_on) = (faults.clone(), false);
        let run = Box::new(move || {
            is_on = !is_on;
            let (fault, told) = if is_on { first } else { second };
            // A source that has ended plays nothing any more.
            if faults.send(fault).is_ok() { told.to_owned() } else { "the source has ended".to_owned() }
        });
        Command { key, what, run }
    };
    let cut = (Fault::Cut, "the source's connection was cut: it is dialled again");
    vec![
        toggle(
            'd',
            "the source takes its service down, and up again",
            [(Fault::ServiceDown, "the service is down: d brings it back"), (Fault::ServiceUp, "the service is back")],
        ),
        toggle(
            'u',
            "the source says that all items are suspect, and good again",
            [(Fault::Suspect, "all items are suspect: u makes them good"), (Fault::Good, "all items are good again")],
        ),
        toggle('x', "the source's connection is cut off", [cut, cut]),
    ]
}

/// The provider, on a free port of the loopback.
fn start_source(
    args: &DemoArgs,
    stop: &Arc<AtomicBool>,
    faults: Receiver<Fault>,
) -> anyhow::Result<(SourceThread, SocketAddr)> {
    let settings = SourceSettings {
        data: args.data.clone(),
        replay: ReplayConfig { pace: ReplaySpeed::Scaled(args.speed), ..ReplayConfig::default() },
        rate: args.speed,
        ..SourceSettings::default()
    };
    let (ready, bound) = channel();
    let flag = stop.clone();
    let source = Builder::new().name("source".into()).spawn(move || {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        // Nobody waits for the address any more only if the start has failed elsewhere.
        serve(anywhere, &settings, &flag, |at| ready.send(at).unwrap_or_default(), &faults)
    })?;
    match bound.recv() {
        Ok(at) => Ok((source, at)),
        // The source has ended before it was ready, and says why.
        Err(_) => match source.join() {
            Ok(Err(e)) => Err(e),
            _ => Err(anyhow!("the demo's source has failed")),
        },
    }
}

fn configuration(args: &DemoArgs, provider: SocketAddr) -> Config {
    let mut config = Config::default();
    config.p2ps.interface = args.bind.to_string();
    config.p2ps.rssl_port = args.rssl_port;
    config.source_distributor.interface = args.bind.to_string();
    config.source_distributor.nip_port = args.nip_port;
    config.p2ps.default_service = SERVICE.to_string();
    args.http.apply(&mut config.http);
    config.routes.push(Route { host_list: vec![provider.to_string()], ..Route::default() });
    config
}

/// The service of the demo's source.
const SERVICE: &str = "DIRECT_FEED";

fn watchlist(args: &DemoArgs) -> Vec<String> {
    if args.items.is_empty() { ITEMS.map(str::to_string).to_vec() } else { args.items.clone() }
}

fn view(args: &DemoArgs, addresses: Addresses, web: Option<&Running>) -> ui::Settings {
    let port = addresses.rssl.port();
    let mut hints = vec![format!("EMA Java: .host(\"localhost:{port}\").username(\"user\"), service {SERVICE}.")];
    if let Some(websocket) = addresses.websocket {
        let port = websocket.port();
        hints.push(format!("WebSocket: ws://localhost:{port}/WebSocket, protocol tr_json2."));
    }
    if let Some(nip) = addresses.nip {
        hints.push(format!("Non-interactive providers publish to localhost:{}.", nip.port()));
    }
    hints.extend(web.map(|web| format!("The live market in a browser: {}", web.url())));
    ui::Settings {
        // A server that listens on all addresses is connected to by the loopback's.
        address: show(addresses.rssl).parse().unwrap_or(addresses.rssl),
        service: SERVICE.to_string(),
        names: watchlist(args),
        hints,
        plain: args.no_ui,
        interval: Duration::from_secs(1),
        limit: args.seconds.map(Duration::from_secs_f64),
        clients: None,
        commands: Vec::new(),
    }
}
