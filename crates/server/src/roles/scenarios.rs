//! `quoteway scenario serve`: a test stand, and the page on which scenarios are chosen.

use config::Config;
use scenario_io::command::ServeArgs;
use scenario_io::stand::Stand;

use super::process;
use super::service;
use crate::agents::lifecycle::Lifecycle;
use crate::http::{self, About};

/// Serves until SIGINT or SIGTERM. The first line on standard output comes when it is ready.
///
/// # Errors
/// A port that cannot be had.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let mut config = Config::default();
    config.http.port = args.http_port;
    process::install_signals()?;
    let stand = Stand::bound(args.listen).map_err(anyhow::Error::msg)?;
    let life = Lifecycle::new(config.clone(), Vec::new(), Box::new(|| Ok(Config::default())));
    let about =
        About { role: http::STAND, takes_websocket: false, stand: Some(stand.clone()), ..process::about(&config) };
    let web = http::start(&config.http, about, &life, None).map_err(anyhow::Error::msg)?;
    // Without its page the stand is of no use, other than servers.
    let web =
        web.ok_or_else(|| anyhow::anyhow!("port {} is taken: --http-port PORT chooses another", args.http_port))?;
    let listen = stand.standing().listen;
    process::announce(
        &format!("ready rssl={}{}", crate::addresses::show(listen), process::web(Some(&web))),
        Vec::new(),
    );
    let ended = stand.serve(&|| !process::stopped()).map_err(anyhow::Error::msg);
    service::stopping();
    ended
}
