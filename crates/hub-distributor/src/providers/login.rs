//! The login domain: we log in at interactive providers, and non-interactive ones log in here.

use super::Phase;
use crate::{CloseReason, ProviderSink, SessionId, SourceDistributor};
use omm::login::{Acceptance, LoginEvent, LoginStream};
use rwf::StateCode;
use rwf::msg::{Msg, MsgClass};
use rwf::rdm::login::{Attributes, Features, Request, name_type};

/// Stream of our login at a provider.
pub(crate) const STREAM: i32 = 1;

impl SourceDistributor {
    /// Logs in at an interactive provider.
    pub(crate) fn send_login(&mut self, id: SessionId, out: &mut dyn ProviderSink) {
        let config = &self.config;
        let route = config.route(self.providers.sessions[id].origin);
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
        let mut login = LoginStream::new(request, Acceptance::OpenAndOk);
        let request = login.begin().clone();
        self.providers.sessions[id].login = Some(Box::new(login));
        self.send(id, out, |w| request.encode(w));
    }

    /// Takes an interactive provider's message on the login stream. Round trips are not claimed by the login, so they are not answered.
    pub(crate) fn login_message(
        &mut self,
        id: SessionId,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), CloseReason> {
        let session = &mut self.providers.sessions[id];
        let Some(login) = session.login.as_mut() else {
            hub_items::fault!("{id:?} has no login, and is a route's");
            return Err(CloseReason::NotLoggedIn);
        };
        match login.message(msg)? {
            LoginEvent::Accepted(_) => {
                if session.phase == Phase::LoggingIn {
                    session.phase = Phase::LoggedIn;
                    self.request_directory(id, out);
                }
            }
            LoginEvent::Over(state) => {
                return Err(CloseReason::LoginClosed { text: state.as_state().text_lossy().into_owned() });
            }
            LoginEvent::Ack => return self.provider_ack(id, msg),
            LoginEvent::WrongDirection(_) => return Err(CloseReason::WrongOnLoginStream),
            LoginEvent::Nothing | LoginEvent::State(_) | LoginEvent::RoundTrip(_) => {}
        }
        Ok(())
    }

    /// Takes a non-interactive provider's message in the login domain.
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
            let refusal = self.providers.sessions[id].port.refuse(&request, StateCode::USAGE_ERROR, text);
            self.send(id, out, |w| refusal.encode(w));
            return Err(CloseReason::ConsumerLogin);
        }
        let features = Features { post: Some(false), provider_dictionary_download: Some(false), ..Features::default() };
        let session = &mut self.providers.sessions[id];
        if session.phase == Phase::LoggingIn {
            session.phase = Phase::LoggedIn;
        }
        if let Some(answer) = session.port.accept(&request, features, "Login accepted by Quoteway") {
            self.send(id, out, |w| answer.encode(w));
        }
        Ok(())
    }
}
