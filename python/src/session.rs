//! Sessions.

use crate::QuotewayError;
use crate::book::NativeBook;
use crate::followed::NativeFollowed;
use client::members::Kind;
use client::queue::{Overflow, QueueConfig};
use client::{Arrangement, Interest};
use client_io::{Notice, Session, SessionConfig, Transport};
use omm::consumer::{Event, ItemRequest};
use pyo3::exceptions::{PyConnectionError, PyValueError};
use pyo3::prelude::*;
use rwf::dictionary::Dictionary;
use rwf::msg::Domain;
use rwf::rdm::request::View;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A session with the servers of a list.
#[pyclass(frozen, module = "quoteway._native")]
pub struct NativeSession {
    session: Mutex<Option<Arc<Session>>>,
}

pub(crate) fn seconds(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let wrong = |_| PyValueError::new_err("timeout: give seconds that are not negative, or None for no end");
    timeout.map(|timeout| Duration::try_from_secs_f64(timeout).map_err(wrong)).transpose()
}

fn domain(name: &str) -> PyResult<Domain> {
    Ok(match name {
        "MarketPrice" => Domain::MARKET_PRICE,
        "MarketByOrder" => Domain::MARKET_BY_ORDER,
        "MarketByPrice" => Domain::MARKET_BY_PRICE,
        "MarketMaker" => Domain::MARKET_MAKER,
        "SymbolList" => Domain::SYMBOL_LIST,
        other => match other.parse() {
            Ok(number) => Domain(number),
            Err(_) => {
                return Err(PyValueError::new_err(format!(
                    "domain {other:?}: give MarketPrice, MarketByOrder, MarketByPrice, MarketMaker, SymbolList, or a number"
                )));
            }
        },
    })
}

pub(crate) fn dictionary_of(paths: Option<(PathBuf, PathBuf)>) -> PyResult<Option<Arc<Dictionary>>> {
    let Some((fields, enums)) = paths else { return Ok(None) };
    let mut dictionary = Dictionary::new();
    let wrong = |e: rwf::dictionary::DictionaryError| QuotewayError::new_err(e.to_string());
    dictionary.load_fields(&fields.display().to_string(), &std::fs::read(&fields)?).map_err(wrong)?;
    dictionary.load_enums(&enums.display().to_string(), &std::fs::read(&enums)?).map_err(wrong)?;
    Ok(Some(Arc::new(dictionary)))
}

fn view_of(names: &[String], dictionary: &Dictionary) -> PyResult<View> {
    let fid = |name: &String| {
        let field = dictionary.field_named(name);
        let unknown = || client::fields::UnknownField(name.clone()).to_string();
        field.map(|field| field.fid()).ok_or_else(|| PyValueError::new_err(unknown()))
    };
    Ok(View::Fields(names.iter().map(fid).collect::<PyResult<_>>()?))
}

impl NativeSession {
    fn get(&self) -> PyResult<Arc<Session>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone().ok_or_else(|| QuotewayError::new_err("the session is closed; connect again"))
    }
}

#[pymethods]
impl NativeSession {
    #[new]
    #[pyo3(signature = (servers, user, application, password, dictionary, tls, roots, websocket, standby, preferred, fall_back, fall_back_at))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new(
        servers: &str,
        user: &str,
        application: Option<String>,
        password: Option<String>,
        dictionary: Option<(PathBuf, PathBuf)>,
        tls: bool,
        roots: Option<PathBuf>,
        websocket: bool,
        standby: Option<&str>,
        preferred: Option<&str>,
        fall_back: Option<f64>,
        fall_back_at: Option<&str>,
    ) -> PyResult<Self> {
        let mut config = SessionConfig::new(servers, user).map_err(|e| PyValueError::new_err(e.to_string()))?;
        config.client.arrangement = match standby {
            None => Arrangement::Routing,
            Some("login") => Arrangement::StandbyByLogin,
            Some("service") => Arrangement::StandbyByService,
            Some(other) => {
                let text = format!("standby={other:?}: give \"login\" or \"service\", or leave it out");
                return Err(PyValueError::new_err(text));
            }
        };
        let fall_back = seconds(fall_back)?.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        match preferred {
            Some(preferred) => {
                config.prefer(preferred, fall_back).map_err(|e| PyValueError::new_err(e.to_string()))?;
            }
            None if fall_back.is_some() || fall_back_at.is_some() => {
                return Err(PyValueError::new_err(
                    "fall_back, fall_back_at: name the server to go back to as preferred=\"HOST:PORT\"",
                ));
            }
            None => {}
        }
        if let Some(schedule) = fall_back_at {
            config.fall_back_at(schedule).map_err(|e| PyValueError::new_err(e.to_string()))?;
        }
        config.client.dictionary = dictionary_of(dictionary)?;
        let login = &mut config.client.consumer.login;
        login.attributes.application_name = Some("python".to_owned());
        login.attributes.application_id = application.or(login.attributes.application_id.take());
        login.password = password;
        if websocket {
            config.transport = Transport::WebSocket;
        }
        if tls || roots.is_some() {
            config.encrypt(roots.as_deref()).map_err(|e| QuotewayError::new_err(e.to_string()))?;
        }
        let session = Session::connect(config).map_err(|e| QuotewayError::new_err(e.to_string()))?;
        Ok(Self { session: Mutex::new(Some(Arc::new(session))) })
    }

    /// Waits for the login, a service and the dictionary, at most so many seconds.
    fn wait_ready(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let session = self.get()?;
        let timeout = seconds(Some(timeout))?.unwrap_or_default();
        let status = py.detach(|| {
            session.wait(timeout, |status| {
                let is_ready = status.is_logged_in && !status.services.is_empty() && status.dictionary.is_some();
                is_ready || status.refusal.is_some()
            })
        });
        if let Some(refusal) = status.refusal {
            return Err(PyConnectionError::new_err(format!("the login is refused: {refusal}")));
        }
        if !status.is_logged_in {
            let why = status.lost.unwrap_or_else(|| "no server has answered".to_owned());
            return Err(PyConnectionError::new_err(format!("not connected yet, and going on to try: {why}")));
        }
        if status.services.is_empty() {
            return Err(PyConnectionError::new_err(
                "the server has no service that is up; wait for one, or look at the server",
            ));
        }
        if status.dictionary.is_none() {
            return Err(PyConnectionError::new_err(
                "no service gives its dictionary; give the paths of RDMFieldDictionary and enumtype.def as dictionary=(...)",
            ));
        }
        Ok(())
    }

    /// Services that can be used.
    fn services(&self) -> PyResult<Vec<String>> {
        Ok(self.get()?.status().services)
    }

    /// Leaves servers for the preferred ones of their lists; how many are left.
    fn fall_back(&self, py: Python<'_>) -> PyResult<usize> {
        let session = self.get()?;
        py.detach(|| session.fall_back()).map_err(|e| QuotewayError::new_err(e.to_string()))
    }

    /// Pauses all that is open, or goes on.
    fn pause(&self, is_paused: bool) -> PyResult<()> {
        self.get()?.pause(is_paused);
        Ok(())
    }

    /// Of each connection that is held: the server, whether it is logged in, and whether it serves in a warm standby.
    fn links(&self) -> PyResult<Vec<(Option<String>, bool, bool)>> {
        let links = self.get()?.status().links;
        let serves = |link: &client_io::Link| link.serves || !link.serves_in.is_empty();
        Ok(links.iter().map(|link| (link.server.clone(), link.is_logged_in, serves(link))).collect())
    }

    /// Whether it is logged in, the server, lost connections, and why the last was lost.
    fn status(&self) -> PyResult<(bool, Option<String>, u64, Option<String>)> {
        let status = self.get()?.status();
        Ok((status.is_logged_in, status.server, status.connections_lost, status.lost))
    }

    #[pyo3(signature = (service, items, fields, domain_name, snapshot, slow, limit_bytes))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn subscribe(
        &self,
        py: Python<'_>,
        service: &str,
        items: Vec<String>,
        fields: Option<Vec<String>>,
        domain_name: &str,
        snapshot: bool,
        slow: Option<&str>,
        limit_bytes: usize,
    ) -> PyResult<NativeBook> {
        let session = self.get()?;
        let dictionary = session.status().dictionary;
        let dictionary = dictionary
            .ok_or_else(|| QuotewayError::new_err("there is no dictionary yet; wait_ready() waits for it"))?;
        let overflow = match slow {
            // Nobody iterates yet: images stay current. The first iteration changes it.
            None | Some("latest") => Overflow::Latest,
            Some("wait") => Overflow::Wait,
            Some("cut") => Overflow::Cut,
            Some(other) => {
                return Err(PyValueError::new_err(format!("slow={other:?}: give \"wait\", \"latest\" or \"cut\"")));
            }
        };
        let view = fields.as_deref().map(|names| view_of(names, &dictionary)).transpose()?;
        let request =
            ItemRequest { domain: domain(domain_name)?, streaming: !snapshot, view, ..ItemRequest::new(service, "") };
        let queue = QueueConfig { limit_bytes, overflow };
        let interest = Interest { request, names: items };
        let of_thread = Arc::clone(&session);
        let subscription = py.detach(|| of_thread.subscribe_to(interest, queue));
        let subscription = subscription.map_err(|e| QuotewayError::new_err(e.to_string()))?;
        let is_lazy = slow.is_none();
        Ok(NativeBook::new(py, subscription, dictionary, fields, is_lazy))
    }

    /// Follows a chain or, if `is_list`, a symbol list; its members are market prices of these fields.
    fn follow(
        &self,
        py: Python<'_>,
        service: &str,
        name: &str,
        is_list: bool,
        fields: Option<Vec<String>>,
        limit_bytes: usize,
    ) -> PyResult<NativeFollowed> {
        let session = self.get()?;
        let dictionary = session.status().dictionary;
        let dictionary = dictionary
            .ok_or_else(|| QuotewayError::new_err("there is no dictionary yet; wait_ready() waits for it"))?;
        let view = fields.as_deref().map(|names| view_of(names, &dictionary)).transpose()?;
        let request = ItemRequest { view, ..ItemRequest::new(service, "") };
        let kind = if is_list { Kind::SymbolList } else { Kind::Chain };
        let queue = QueueConfig { limit_bytes, overflow: Overflow::Wait };
        let followed = py.detach(|| session.follow(kind, name, request, queue));
        Ok(NativeFollowed::new(followed.map_err(|e| QuotewayError::new_err(e.to_string()))?, dictionary))
    }

    /// The next notice of login, services and connection as text; `None` after so many seconds without.
    #[pyo3(signature = (timeout=0.0))]
    fn next_notice(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<String>> {
        let session = self.get()?;
        let timeout = seconds(Some(timeout))?.unwrap_or_default();
        let notice = py.detach(|| session.next_notice(timeout));
        Ok(notice.map(|notice| match notice {
            Notice::Connected { server, .. } => format!("connected to {server}"),
            Notice::Lost { server, why, .. } => format!("lost {server}: {why}"),
            Notice::Client(client::Event::Consumer { event, .. }) => match *event {
                Event::LoggedIn(_) => "logged in".to_owned(),
                Event::LoginRefused(state) => format!("login refused: {}", state.as_state()),
                Event::LoginState(state) => format!("login: {}", state.as_state()),
                Event::ServiceUp { name, .. } => format!("service {name} is up"),
                Event::ServiceDown { name, .. } => format!("service {name} is down"),
                Event::Dictionary(dictionary) => format!("dictionary of {} fields", dictionary.len()),
                other => format!("{other:?}"),
            },
            Notice::Client(client::Event::Serves { link, service }) => {
                let of = service.map_or_else(|| "all services".to_owned(), |service| format!("service {service}"));
                format!("connection {} serves {of}", link.index() + 1)
            }
            other => format!("{other:?}"),
        }))
    }

    /// Renews the token or password of the login, here and at the server.
    #[pyo3(signature = (token=None, password=None))]
    fn renew_login(&self, token: Option<String>, password: Option<String>) -> PyResult<()> {
        self.get()?.reissue_login(move |login| {
            if token.is_some() {
                login.authentication_token.clone_from(&token);
            }
            if password.is_some() {
                login.password.clone_from(&password);
            }
        });
        Ok(())
    }

    /// Logs out. Books of the session end.
    fn close(&self, py: Python<'_>) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(session) = &session {
            session.end();
        }
        py.detach(|| drop(session));
    }
}
