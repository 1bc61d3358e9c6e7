//! Changes by operators to a Source Distributor that runs.

use super::{Config, ItemPriorities, RouteConfig, SourceDistributor};

impl SourceDistributor {
    /// Takes over those settings that may change while providers and P2PSs are there; everything else of `config` counts from the next
    /// start on, and routes are changed by [`Self::set_route`].
    pub fn reconfigure(&mut self, config: &Config) {
        let own = &mut self.config;
        own.age_unwatched = config.age_unwatched;
        let becomes_hot = own.balance != config.balance;
        (own.balance, own.failback, own.restart) = (config.balance, config.failback, config.restart);
        if std::mem::replace(&mut own.sequence_numbers, config.sequence_numbers) != config.sequence_numbers {
            self.hot_standby.forget_numbers();
        }
        own.takeover_on_suspect = config.takeover_on_suspect;
        own.request_timeout = config.request_timeout;
        own.retry_limit = config.retry_limit;
        own.recover_on_close = config.recover_on_close;
        own.poll_refused = config.poll_refused;
        (own.max_load, own.recognition) = (config.max_load, config.recognition);
        own.counts_unwatched = config.counts_unwatched;
        own.stale_recovery_retry = config.stale_recovery_retry;
        own.post_timeout = config.post_timeout;
        own.post_flush = config.post_flush;
        own.forward_priority = config.forward_priority;
        let before = std::mem::replace(&mut own.services, config.services.clone());
        for (name, service) in &mut own.services {
            service.point_to_point = before.get(name).and_then(|known| known.point_to_point);
        }
        own.open_window = config.open_window;
        if becomes_hot {
            self.providers.service_ids().for_each(|service| self.want_mirrors(service));
        }
    }

    /// Other priorities of items; what operators have locked stays so.
    pub fn set_item_priorities(&mut self, priorities: ItemPriorities) {
        self.upstream.set_priorities(priorities);
    }

    /// Sets the options of a route from its next session on. Numbers before it that nothing was said of have nothing special.
    pub fn set_route(&mut self, number: u16, route: RouteConfig) {
        let number = usize::from(number);
        if self.config.routes.len() <= number {
            self.config.routes.resize(number + 1, RouteConfig::default());
        }
        self.config.routes[number] = route;
    }
}
