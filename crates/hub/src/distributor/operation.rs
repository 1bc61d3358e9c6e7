//! What operators change of a Source Distributor that runs.

use super::{Config, RouteConfig, SourceDistributor};

impl SourceDistributor {
    /// Takes over those settings that may change while providers and P2PSs are there; everything else of `config` counts from the next
    /// start on, and routes are changed by [`Self::set_route`].
    pub fn reconfigure(&mut self, config: &Config) {
        let own = &mut self.config;
        own.age_unwatched = config.age_unwatched;
        (own.balance, own.failback) = (config.balance, config.failback);
        own.request_timeout = config.request_timeout;
        own.post_timeout = config.post_timeout;
        own.open_window = config.open_window;
    }

    /// What is special to a route from its next session on. Numbers before it that nothing was said of have nothing special.
    pub fn set_route(&mut self, number: u16, route: RouteConfig) {
        let number = usize::from(number);
        if self.config.routes.len() <= number {
            self.config.routes.resize(number + 1, RouteConfig::default());
        }
        self.config.routes[number] = route;
    }
}
