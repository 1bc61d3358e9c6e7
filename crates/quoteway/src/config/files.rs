//! The files that a configuration names, looked into before a port is opened.

use std::path::Path;

use lbm::options::Options;
use net::tls::{TlsClient, TlsError, TlsServer};

use super::{Config, ConnectionType, P2ps, SourceDistributor, blocked_list, dictionary, item_priorities};

/// What is wrong with the files that the configuration names, one sentence each; LBM options with file and line.
pub(super) fn faults(config: &Config) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let p = &config.p2ps;
    if let Err(e) = dictionary(&config.dictionary) {
        found.push(e.to_string());
    }
    if let Err(e) = blocked_list(config) {
        found.push(e);
    }
    if let Err(e) = item_priorities(config) {
        found.push(e);
    }
    if let Err(e) = p.tls() {
        found.push(format!("p2ps.server_cert_file: {e}"));
    }
    if let Err(e) = config.source_distributor.tls() {
        found.push(format!("source_distributor.nip_cert_file: {e}"));
    }
    for route in config.dialled_routes() {
        let file = &route.ca_file;
        if route.rssl_connection_type == ConnectionType::Encrypted
            && !file.is_empty()
            && let Err(e) = TlsClient::with_roots_from(Path::new(file))
        {
            found.push(format!("route.ca_file: {e}"));
        }
    }
    let rights = &config.permissions;
    if !rights.rights_file.is_empty()
        && let Some(faults) = crate::agents::permissions::rights::faults(&rights.rights_file)
    {
        found.push(faults);
    }
    if !rights.rights_ca_file.is_empty()
        && let Err(e) = TlsClient::with_roots_from(Path::new(&rights.rights_ca_file))
    {
        found.push(format!("permissions.rights_ca_file: {e}"));
    }
    let mut options = Options::new();
    let name = &config.hub.lbm_options_file;
    let text = if name.is_empty() { Ok(String::new()) } else { std::fs::read_to_string(name) };
    match text {
        Err(e) => found.push(format!("hub.lbm_options_file: {name} cannot be read: {e}")),
        Ok(text) => {
            found.extend(options.load(name, &text).err().unwrap_or_default().iter().map(ToString::to_string));
            let mut parse = |name: &str, text: &str| {
                found.extend(options.parse(name, text).err().unwrap_or_default().iter().map(ToString::to_string));
            };
            parse("hub.lbm_options", &config.hub.lbm_options.join("\n"));
            parse("rrcpd.local_lbm_options", &config.rrcpd.local_lbm_options.join("\n"));
        }
    }
    found
}

/// TLS with this certificate, if there is one; those of clients must lead to `client_roots`, if they are named.
fn tls(certificate: &str, key: &str, client_roots: &str) -> Result<Option<TlsServer>, TlsError> {
    if certificate.is_empty() {
        return Ok(None);
    }
    let client_roots = (!client_roots.is_empty()).then(|| Path::new(client_roots));
    TlsServer::from_files(Path::new(certificate), Path::new(key), client_roots).map(Some)
}

impl P2ps {
    /// TLS towards consumers, if there is a certificate.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold what it should; the message names it.
    pub fn tls(&self) -> Result<Option<TlsServer>, TlsError> {
        tls(&self.server_cert_file, &self.server_key_file, &self.client_ca_file)
    }
}

impl SourceDistributor {
    /// TLS towards non-interactive providers, if there is a certificate.
    ///
    /// # Errors
    /// As [`P2ps::tls`].
    pub fn tls(&self) -> Result<Option<TlsServer>, TlsError> {
        tls(&self.nip_cert_file, &self.nip_key_file, &self.nip_client_ca_file)
    }
}
