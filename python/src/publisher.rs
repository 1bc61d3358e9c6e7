//! Publishers.

use crate::QuotewayError;
use crate::session::{dictionary_of, seconds};
use crate::values::Given;
use client::publication::{Event, PublicationConfig, Unpublished};
use client_io::{Dial, Encryption, PublishError, Publisher, Transport};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rwf::Primitive;
use rwf::msg::Domain;
use std::net::ToSocketAddrs as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A service of the program's own.
#[pyclass(frozen, module = "quoteway._native")]
pub struct NativePublisher {
    publisher: Mutex<Option<Arc<Publisher>>>,
}

impl NativePublisher {
    fn get(&self) -> PyResult<Arc<Publisher>> {
        let publisher = self.publisher.lock().unwrap_or_else(PoisonError::into_inner);
        publisher.clone().ok_or_else(|| QuotewayError::new_err("the publisher is closed"))
    }
}

fn error(error: PublishError) -> PyErr {
    match error {
        PublishError::Write(error) => PyValueError::new_err(error.to_string()),
        other => QuotewayError::new_err(other.to_string()),
    }
}

#[pymethods]
impl NativePublisher {
    #[new]
    #[pyo3(signature = (service, listen, server, user, service_id, dictionary, waits, certificate, tls, roots, websocket))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new(
        service: &str,
        listen: Option<&str>,
        server: Option<&str>,
        user: &str,
        service_id: u16,
        dictionary: Option<(PathBuf, PathBuf)>,
        waits: bool,
        certificate: Option<(PathBuf, PathBuf)>,
        tls: bool,
        roots: Option<PathBuf>,
        websocket: bool,
    ) -> PyResult<Self> {
        let mut config = PublicationConfig { service_id, ..PublicationConfig::new(service) };
        if let Some(dictionary) = dictionary_of(dictionary)? {
            config.dictionary = dictionary;
        }
        if waits {
            config.unpublished = Unpublished::Wait;
        }
        let dials_otherwise = tls || websocket || roots.is_some();
        let publisher = match (listen, server) {
            (Some(_), None) if dials_otherwise => {
                return Err(PyValueError::new_err(
                    "tls, roots and websocket are for who dials (server=...); who listens takes WebSocket anyway, and TLS with certificate=(certificate, key)",
                ));
            }
            (None, Some(_)) if certificate.is_some() => {
                return Err(PyValueError::new_err(
                    "certificate is for who listens (listen=...); who dials trusts roots",
                ));
            }
            (Some(address), None) => {
                let address = address.to_socket_addrs()?.next();
                let address = address.ok_or_else(|| PyValueError::new_err("listen: no address has this name"))?;
                match certificate {
                    Some((certificate, key)) => Publisher::listen_encrypted(config, address, &certificate, &key)?,
                    None => Publisher::listen(config, address)?,
                }
            }
            (None, Some(server)) => {
                let mut dial = Dial::default();
                if tls || roots.is_some() {
                    let encrypted = Encryption::with_roots(roots.as_deref());
                    dial.encryption = encrypted.map_err(|e| QuotewayError::new_err(e.to_string()))?;
                }
                if websocket {
                    dial.transport = Transport::WebSocket;
                }
                Publisher::dial_as(config, server, user, dial)?
            }
            _ => {
                return Err(PyValueError::new_err(
                    "give listen=\"HOST:PORT\" (consumers and servers dial you) or server=\"HOST:PORT\" (you dial a server)",
                ));
            }
        };
        Ok(Self { publisher: Mutex::new(Some(Arc::new(publisher))) })
    }

    /// Where it listens: `HOST:PORT`; `None` if it dials.
    #[getter]
    fn address(&self) -> PyResult<Option<String>> {
        Ok(self.get()?.address().map(|address| address.to_string()))
    }

    /// Publishes fields of an item: the first time they are its image, then an update.
    fn publish(&self, py: Python<'_>, item: &str, fields: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut names: Vec<(String, Given)> = Vec::with_capacity(fields.len());
        for (name, value) in fields.iter() {
            let name: String = name.extract()?;
            let given = Given::of(&name, &value)?;
            names.push((name, given));
        }
        let publisher = self.get()?;
        py.detach(|| {
            let values: Vec<(&str, Primitive<'_>)> =
                names.iter().map(|(name, given)| (name.as_str(), given.as_primitive())).collect();
            publisher.publish(item, &values)
        })
        .map_err(error)
    }

    /// Ends an item: consumers are told that it is closed.
    #[pyo3(signature = (item, text=""))]
    fn end(&self, item: &str, text: &str) -> PyResult<()> {
        self.get()?.end(Domain::MARKET_PRICE, item, text).map_err(error)
    }

    /// Waits until all that was published before is on its way.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let publisher = self.get()?;
        py.detach(|| publisher.flush());
        Ok(())
    }

    /// What has happened: (`wanted`, item), (`unwanted`, item), (`ready`, ``), ...; `None` after so many seconds without.
    #[pyo3(signature = (timeout=0.0))]
    fn next_event(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<(&'static str, String)>> {
        let publisher = self.get()?;
        let timeout = seconds(Some(timeout))?.unwrap_or_default();
        Ok(py.detach(|| publisher.next_event(timeout)).map(|event| match event {
            Event::Wanted(item) => ("wanted", item.name.into()),
            Event::Unwanted(item) => ("unwanted", item.name.into()),
            Event::Posted { item, .. } => ("posted", item.name.into()),
            Event::Ready => ("ready", String::new()),
            Event::Lost => ("lost", String::new()),
            Event::Refused(why) => ("refused", why),
            other => ("other", format!("{other:?}")),
        }))
    }

    /// Connections, whether the server has everything, refused bodies, and why the last connection was lost.
    fn status(&self) -> PyResult<(usize, bool, u64, Option<String>)> {
        let status = self.get()?.status();
        Ok((status.connections, status.is_ready, status.refused, status.lost))
    }

    /// Ends the service.
    fn close(&self, py: Python<'_>) {
        let publisher = self.publisher.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(publisher));
    }
}
