//! `[delay.NAME]`: services that a server publishes later than their source, each a provider in a thread of its own, which the server dials and which
//! consumes at the server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use anyhow::anyhow;
use config::Delay;
use record_io::delay::{self, OnDemandConfig, Rule, Standing, all_rules};
use server::http;
use server::roles::delayed::ConsumersAt;

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Providers in threads, which stop with this.
#[derive(Default)]
pub(crate) struct Delays {
    stop: Arc<AtomicBool>,
    consumers_at: ConsumersAt,
    /// How they stand, for the server's metrics.
    standing: http::Delays,
    threads: Vec<(String, JoinHandle<anyhow::Result<()>>)>,
}

impl Delays {
    /// Starts one, and gives the address at which it is to be dialled.
    pub(crate) fn start(&mut self, config: OnDemandConfig) -> anyhow::Result<SocketAddr> {
        let (stop, at, (ready, bound)) = (self.stop.clone(), self.consumers_at.clone(), channel());
        let name = config.published_as.clone();
        let report = reporter(&config, self.standing.clone());
        let thread = Builder::new().name(format!("delay {name}")).spawn(move || {
            // Nobody waits for the address any more only if the start has failed elsewhere.
            let ready = |address| ready.send(address).unwrap_or_default();
            let ended = delay::serve(&config, &stop, ready, &|most| at.wait(most), &report);
            if let Err(error) = &ended {
                tracing::error!("delay {} has ended: {error}", config.published_as);
            }
            ended.map_err(anyhow::Error::from)
        })?;
        // Without an address it has ended before it was ready, and says why.
        match bound.recv() {
            Ok(address) => {
                self.threads.push((name, thread));
                Ok(address)
            }
            Err(_) => Err(joined(thread).err().unwrap_or_else(|| anyhow!("it has ended before it began"))),
        }
    }

    /// For the server, which says in it where its consumers connect.
    pub(crate) fn consumers_at(&self) -> ConsumersAt {
        self.consumers_at.clone()
    }

    /// How they stand, as it changes.
    pub(crate) fn standing(&self) -> http::Delays {
        self.standing.clone()
    }

    /// Stops all and waits for them.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Release);
        let ended = |(name, thread)| joined(thread).map_err(|e| anyhow!("delay {name}: {e:#}"));
        self.threads.into_iter().try_for_each(ended)
    }
}

fn joined(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("the thread of the delayed service has failed")))
}

/// Tells the server how a delayed service stands.
fn reporter(config: &OnDemandConfig, standing: http::Delays) -> impl Fn(&Standing) + Send + 'static {
    let (name, delayed_service) = (config.published_as.clone(), config.service.clone());
    move |now: &Standing| {
        let (name, delayed_service) = (name.clone(), delayed_service.clone());
        standing.tell(http::Delay { name, delayed_service, standing: *now });
    }
}

/// The services as the configuration says them.
pub(crate) fn config_of(name: &str, delay: &Delay) -> anyhow::Result<OnDemandConfig> {
    let said = delay.delay_rules.iter().map(|text| text.parse()).collect::<Result<Vec<Rule>, _>>()?;
    let file = Some(delay.delay_rules_file.as_str()).filter(|file| !file.is_empty()).map(Path::new);
    Ok(OnDemandConfig {
        service: delay.delayed_service.clone(),
        published_as: name.to_owned(),
        delay: u64::from(delay.delay_s) * SECOND,
        rules: all_rules(&said, file).map_err(anyhow::Error::msg)?,
        fee_fields: delay.kept_back().map(Iterator::collect),
        domains: delay.domain_numbers(),
        journal: delay.delay_journal.clone().into(),
        segment: u64::from(delay.delay_segment_s) * SECOND,
        bytes_max: u64::from(delay.delay_journal_megabytes) << 20,
        items_max: delay.delay_items_max as usize,
        unwatched: u64::from(delay.delay_unwatched_s) * SECOND,
        user: delay.delay_user.clone(),
    })
}
