//! Logins: who may do anything at all, and with which attributes.

use super::authentication::named;
use super::batch::Sweep;
use super::refusal::Refusal;
use super::streams::{Open, WatchState};
use super::{Clients, Login};
use crate::CloseReason;
use crate::P2ps;
use crate::filter::rules::UpdateTypes;
use crate::ids::{ClientId, StreamId, UserId};
use rwf::msg::{Domain, RequestMsg};
use rwf::rdm::login::{self, Authentication, Features, name_type};
use rwf::rdm::request::data_streams;

/// What this server can do, if all of it is let be; it claims nothing else.
const FEATURES: Features = Features {
    post: Some(true),
    batch: Some(login::batch::REQUESTS | login::batch::REISSUES | login::batch::CLOSES),
    view: Some(true),
    standby: Some(true),
    standby_mode: Some(super::standby::SUPPORTED),
    optimized_pause_resume: Some(true),
    provider_dictionary_download: Some(true),
    enhanced_symbol_list: Some(data_streams::STREAMS),
};

/// The longest text of a login that is kept, bytes: that of DACS.
const TEXT_MAX: usize = 255;

impl Clients {
    fn user_of(&self, client: ClientId) -> String {
        let login = self.get(client).and_then(|known| known.login.as_ref());
        login.map(|login| login.name.clone()).unwrap_or_default()
    }

    /// Why a first login is refused, whoever the user is.
    fn login_refusal<'a>(&self, limit: u32, request: &'a login::Request, unasked: bool) -> Option<Refusal<'a>> {
        if request.stream_id <= 0 && !unasked {
            Some(Refusal::BadStreamId { stream: request.stream_id })
        } else if request.is_provider() {
            Some(Refusal::ProviderRole)
        } else if request.name.is_empty() {
            Some(Refusal::NoUserName)
        } else if request.name.len() > TEXT_MAX {
            Some(Refusal::LongUserName { length: request.name.len(), most: TEXT_MAX })
        } else if !request.streaming {
            Some(Refusal::LoginNotStreaming)
        } else if limit > 0 && self.users().mounts(&request.name) >= limit {
            Some(Refusal::TooManyMounts { user: &request.name, limit })
        } else {
            None
        }
    }
}

impl P2ps {
    /// A request of the login domain: the login itself, or a reissue of it.
    pub(crate) fn login_request(&mut self, client: ClientId, msg: &RequestMsg<'_>) {
        let stream = StreamId(msg.stream_id);
        let mut request = match login::Request::decode(msg) {
            Ok(request) => request,
            Err(error) => return self.close_client(client, CloseReason::Garbage { error, length: msg.body.len() }),
        };
        cut_texts(&mut request);
        let Some(known) = self.clients.get(client) else {
            hub_items::fault!("a login of a client that is gone: {client:?}");
            return;
        };
        match known.login.as_ref().map(|login| login.stream) {
            Some(open) if open == stream => {
                // A token says itself whose it is.
                let by_token = self.clients.tokens.judges(&request);
                let refusal = known.login.as_ref().filter(|_| !by_token);
                let refusal = refusal.and_then(|login| reissue_refusal(login, &request));
                if let Some(told) = refusal.map(|refusal| refusal.to_state()) {
                    self.counters.logins_refused += 1;
                    return self.refuse_with_state(client, stream, Domain::LOGIN, &told);
                }
                return self.reissue_login(client, &request);
            }
            Some(open) => {
                let refusal = if known.streams.get(stream).is_some() {
                    Refusal::StreamInUse { stream: stream.0 }
                } else {
                    Refusal::SecondLogin { stream: open.0 }
                };
                return self.refuse(client, stream, Domain::LOGIN, &refusal);
            }
            None => {}
        }
        self.first_login(client, request, false);
    }

    /// The login of a client that has none. One that the server began itself (`unasked`) may have any stream.
    pub(super) fn first_login(&mut self, client: ClientId, mut request: login::Request, unasked: bool) {
        cut_texts(&mut request);
        let stream = StreamId(request.stream_id);
        let identity = match self.clients.identify(self.now, client, &request) {
            Ok(identity) => identity,
            Err(rejected) => {
                let refusal = Refusal::Rejected { code: rejected.code, text: &rejected.text };
                self.refuse(client, stream, Domain::LOGIN, &refusal);
                self.counters.logins_refused += 1;
                return self.close_client(client, CloseReason::LoginRefused { text: rejected.text });
            }
        };
        let (request, authentication) = named(request, &identity);
        if let Some(refusal) = self.clients.login_refusal(self.config.max_mounts_per_user, &request, unasked) {
            let text = refusal.to_string();
            self.refuse(client, stream, Domain::LOGIN, &refusal);
            self.counters.logins_refused += 1;
            return self.close_client(client, CloseReason::LoginRefused { text });
        }
        if let Err(denial) = self.permit_login(client, &request) {
            return self.refuse_login(client, stream, &denial);
        }
        self.clients.await_login_no_more(client);
        let user = self.clients.users_mut().mount(&request.name);
        self.counters.logins += 1;
        self.counters.mounts += 1;
        let round_trip = self.clients.begin_round_trips(
            self.now,
            self.config.round_trip_interval,
            client,
            request.attributes.round_trip_latency,
        );
        let login = Login { round_trip, ..login_of(&request, user) };
        self.clients.count_login(&login, true);
        let policy = self.config.policy_of(&request);
        let hidden_groups = self.config.groups_hidden_from(&request);
        if let Some(known) = self.clients.get_mut(client) {
            known.streams.insert(stream, Open::Login, WatchState::default());
            known.policy = policy;
            known.hidden_groups = hidden_groups;
            known.unwanted = unwanted_by(&request);
            known.login = Some(login);
        }
        self.clients.set_expiry(client, &identity);
        if !request.no_refresh {
            self.login_refresh(client, &request, authentication);
        }
    }

    /// A login again on its own stream: another token, pause or resume of everything, or just a refresh wanted.
    fn reissue_login(&mut self, client: ClientId, request: &login::Request) {
        // The login has ended, and its client was told why.
        let Some(authentication) = self.renew_token(client, request) else { return };
        let policy = self.config.policy_of(request);
        let known = self.clients.get_mut(client);
        let Some((known, login)) = known.and_then(|known| known.login.take().map(|login| (known, login))) else {
            hub_items::fault!("a login again of one who is not logged in: {client:?}");
            return;
        };
        let was_paused = login.paused;
        known.login = Some(Login { paused: request.pause, ..login });
        known.policy = policy;
        known.unwanted = unwanted_by(request);
        if !request.no_refresh {
            self.login_refresh(client, request, authentication);
        }
        if was_paused != request.pause {
            self.sweep(client, Sweep::Pause(request.pause));
        }
    }

    fn login_refresh(&mut self, client: ClientId, request: &login::Request, authentication: Authentication) {
        let text = format!("Login accepted by host {}.", self.config.host_name);
        let mut refresh = self.acceptance(client, request, &text);
        if authentication.reissue_at.is_some() {
            // A token is told by its user.
            refresh.name_type = Some(name_type::NAME);
            refresh.name = self.clients.user_of(client);
            refresh.authentication = authentication;
        }
        refresh.connection_config = self.connections_for(client, request);
        self.send(client, StreamId(request.stream_id), |w| refresh.encode(w));
    }

    /// A login is accepted: what is done, which may be other than what was asked for.
    pub(super) fn acceptance(&self, client: ClientId, request: &login::Request, text: &str) -> login::Refresh {
        let mut refresh = login::Refresh::accept(request, self.features(), text);
        let echo = &mut refresh.attributes;
        echo.single_open = Some(self.config.policy_of(request).single_open);
        echo.allow_suspect_data.get_or_insert(true);
        echo.round_trip_latency = self.clients.round_trips_granted(client);
        refresh
    }

    fn features(&self) -> Features {
        let mut features = FEATURES;
        if !self.config.support_warm_standby {
            (features.standby, features.standby_mode) = (None, None);
        }
        features.optimized_pause_resume = features.optimized_pause_resume.filter(|_| self.config.support_pause_resume);
        features
    }
}

/// Cuts what a login says of its place and program, before anything looks at it: what is checked, kept, told and logged is one text. Names are
/// not cut: another user's could be left. Tokens are bounded by who checks them.
fn cut_texts(request: &mut login::Request) {
    let attributes = &mut request.attributes;
    let texts = [&mut attributes.application_id, &mut attributes.application_name, &mut attributes.position];
    for text in texts.into_iter().chain([&mut request.instance_id]).flatten() {
        if text.len() > TEXT_MAX {
            text.truncate(text.floor_char_boundary(TEXT_MAX));
            text.shrink_to_fit();
        }
    }
}

/// Why a login cannot become what a reissue says. A name that stands for a token may change with the token; one that stands for a user
/// may not: limits and rights are that user's.
fn reissue_refusal<'a>(login: &'a Login, request: &login::Request) -> Option<Refusal<'a>> {
    let is_user = |kind: Option<u8>| matches!(kind, None | Some(name_type::NAME | name_type::EMAIL_ADDRESS));
    let other = is_user(login.name_type) != is_user(request.name_type)
        || is_user(request.name_type) && login.name != request.name;
    other.then_some(Refusal::OtherUser { user: &login.name })
}

/// The types of updates that a login leaves out.
fn unwanted_by(request: &login::Request) -> UpdateTypes {
    UpdateTypes::unwanted(request.update_type_filter, request.negative_update_type_filter)
}

fn login_of(request: &login::Request, user: UserId) -> Login {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Login {
        stream: StreamId(request.stream_id),
        user,
        name: request.name.clone(),
        name_type: request.name_type,
        application_id: text(&request.attributes.application_id),
        application_name: text(&request.attributes.application_name),
        position: text(&request.attributes.position),
        paused: request.pause,
        wants_locks: request.attributes.provide_permission_expressions != Some(false),
        expires: u64::MAX,
        round_trip: None,
        asked: None,
    }
}
