//! The login domain: we log in at interactive providers, and non-interactive ones log in here.

use super::Phase;
use crate::distributor::{CloseReason, ProviderSink, SessionId, SourceDistributor};
use rwf::msg::{Msg, MsgClass};
use rwf::rdm::login::{Attributes, Features, Refresh, Request, Status, name_type};
use rwf::{DataState, StateCode, StreamState};

/// Stream of our login at a provider.
pub(crate) const STREAM: i32 = 1;

impl SourceDistributor {
    /// Logs in at an interactive provider.
    pub(crate) fn send_login(&mut self, id: SessionId, out: &mut dyn ProviderSink) {
        let config = &self.config;
        let route = config.route(self.providers[id].origin);
        let name = route.map(|route| &route.user_name).filter(|name| !name.is_empty()).unwrap_or(&config.user_name);
        let request = Request {
            stream_id: STREAM,
            name: name.clone(),
            name_type: Some(name_type::NAME),
            attributes: Attributes {
                application_id: Some(config.application_id.clone()),
                application_name: Some(config.application_name.clone()),
                position: Some(config.position.clone()),
                provide_permission_profile: Some(true),
                provide_permission_expressions: Some(true),
                single_open: Some(true),
                allow_suspect_data: Some(true),
                round_trip_latency: None,
            },
            role: Some(rwf::rdm::login::ROLE_CONSUMER),
            ..Request::default()
        };
        self.send(id, out, |w| request.encode(w));
    }

    /// What an interactive provider sends on the login stream.
    pub(crate) fn login_message(
        &mut self,
        id: SessionId,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), CloseReason> {
        let (state, features) = match Msg::decode(msg)? {
            Msg::Refresh(refresh) => (Some(refresh.state), Some(Refresh::decode(&refresh)?.features)),
            Msg::Status(status) => (status.state, None),
            Msg::Ack(_) => return self.provider_ack(id, msg),
            Msg::Generic(_) | Msg::Update(_) => return Ok(()),
            _ => return Err(CloseReason::WrongOnLoginStream),
        };
        if let Some(state) = state.filter(|state| state.stream.is_final()) {
            return Err(CloseReason::LoginClosed { text: state.text_lossy().into_owned() });
        }
        let session = &mut self.providers[id];
        if let Some(features) = features {
            session.views = features.view.unwrap_or(false);
            session.pause = features.optimized_pause_resume.unwrap_or(false);
        }
        let accepted = state.is_some_and(|s| s.stream == StreamState::OPEN && s.data == DataState::OK);
        if accepted && session.phase == Phase::LoggingIn {
            session.phase = Phase::LoggedIn;
            self.request_directory(id, out);
        }
        Ok(())
    }

    /// What a non-interactive provider sends on the login domain.
    pub(crate) fn provider_login(
        &mut self,
        id: SessionId,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), CloseReason> {
        let request = match Msg::decode(msg)? {
            Msg::Request(request) => Request::decode(&request)?,
            Msg::Close(_) => return Err(CloseReason::LoggedOut),
            other => {
                return match other.class() {
                    MsgClass::GENERIC | MsgClass::POST | MsgClass::ACK => {
                        self.counters.dropped_unexpected += 1;
                        Ok(())
                    }
                    _ => Err(CloseReason::WrongOnLoginDomain),
                };
            }
        };
        if !request.is_provider() {
            let text = "This port takes non-interactive providers: log in with Role 1, or connect to the consumer port";
            let refusal = Status::refuse(request.stream_id, StateCode::USAGE_ERROR, text);
            self.send(id, out, |w| refusal.encode(w));
            return Err(CloseReason::ConsumerLogin);
        }
        let features = Features { post: Some(false), provider_dictionary_download: Some(false), ..Features::default() };
        let answer = Refresh::accept(&request, features, "Login accepted by Quoteway");
        let session = &mut self.providers[id];
        if session.phase == Phase::LoggingIn {
            session.phase = Phase::LoggedIn;
        }
        if !request.no_refresh {
            self.send(id, out, |w| answer.encode(w));
        }
        Ok(())
    }
}
