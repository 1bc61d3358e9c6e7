//! The files that a configuration names, looked into before a port is opened.

use std::path::Path;

use lbm::options::Options;
use net::tls::{TlsClient, TlsServer};

use super::{Config, ConnectionType, dictionary};

/// What is wrong with the files that the configuration names, one sentence each; LBM options with file and line.
pub(super) fn faults(config: &Config) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let p = &config.p2ps;
    if let Err(e) = dictionary(&config.dictionary) {
        found.push(e.to_string());
    }
    if !p.server_cert_file.is_empty()
        && let Err(e) = TlsServer::from_files(Path::new(&p.server_cert_file), Path::new(&p.server_key_file), None)
    {
        found.push(format!("p2ps.server_cert_file: {e}"));
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
    let mut options = Options::new();
    let name = &config.hub.lbm_options_file;
    let text = if name.is_empty() { Ok(String::new()) } else { std::fs::read_to_string(name) };
    match text {
        Err(e) => found.push(format!("hub.lbm_options_file: {name} cannot be read: {e}")),
        Ok(text) => {
            let mut parse = |name: &str, text: &str| {
                found.extend(options.parse(name, text).err().unwrap_or_default().iter().map(ToString::to_string));
            };
            parse(name, &text);
            parse("hub.lbm_options", &config.hub.lbm_options.join("\n"));
            parse("rrcpd.local_lbm_options", &config.rrcpd.local_lbm_options.join("\n"));
        }
    }
    found
}
