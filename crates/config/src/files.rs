//! The files that a configuration names, looked into before a port is opened.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use lbm::options::Options;
use net::tls::{TlsClient, TlsError, TlsServer};

use super::{
    Config, ConnectionType, P2ps, SourceDistributor, blocked_list, dictionary, item_priorities, read_named, rights_file,
};

/// Faults of the files that the configuration names, one sentence each; LBM options with file and line.
pub(super) fn faults(config: &Config) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let p = &config.p2ps;
    if let Err(e) = dictionary(config) {
        found.push(e.to_string());
    }
    if let Err(e) = blocked_list(config) {
        found.push(e);
    }
    if let Err(e) = item_priorities(config) {
        found.push(e);
    }
    if !p.token_keys_file.is_empty()
        && let Err(fault) = key_set(Path::new(&p.token_keys_file))
    {
        found.push(format!("p2ps.token_keys_file {}: {fault}", p.token_keys_file));
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
        && let Err(fault) = rights_file(Path::new(&rights.rights_file))
    {
        found.push(fault.to_string());
    }
    if !rights.rights_ca_file.is_empty()
        && let Err(e) = TlsClient::with_roots_from(Path::new(&rights.rights_ca_file))
    {
        found.push(format!("permissions.rights_ca_file: {e}"));
    }
    if !rights.rights_token_file.is_empty() && goes_in_the_clear(&rights.rights_url) {
        let url = &rights.rights_url;
        found.push(format!(
            "permissions.rights_url {url}: the token of rights_token_file would cross the network unencrypted; use https://"
        ));
    }
    let mut options = Options::new();
    let name = &config.hub.lbm_options_file;
    let text = if name.is_empty() { Ok(String::new()) } else { super::read_named_text(name.as_ref()) };
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

/// Whether a file is a set of public keys (JWKS) at all; which of them can be used, the server that uses them says.
fn key_set(path: &Path) -> Result<(), String> {
    let text = read_named(path).map_err(|e| e.to_string())?;
    let set: serde_json::Value = serde_json::from_slice(&text).map_err(|e| format!("it is no JWKS: {e}"))?;
    let keys = set.get("keys").and_then(serde_json::Value::as_array);
    if keys.is_some_and(|keys| !keys.is_empty()) {
        Ok(())
    } else {
        Err("it is no JWKS: there are no \"keys\"".to_owned())
    }
}

/// Whether a request to a URL crosses a network without TLS.
fn goes_in_the_clear(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    !(host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

/// Files with secrets that every user of the host can read, and files that say who may do what that every user can change, one sentence each.
/// The hub's key is refused then, by who reads it.
pub(super) fn exposed(config: &Config, path: &Path) -> Vec<String> {
    let name = path.display().to_string();
    let rights = &config.permissions;
    let mut secrets = vec![
        ("p2ps.server_key_file", config.p2ps.server_key_file.as_str()),
        ("source_distributor.nip_key_file", &config.source_distributor.nip_key_file),
        ("permissions.rights_file", &rights.rights_file),
        ("permissions.rights_token_file", &rights.rights_token_file),
    ];
    secrets.extend(
        config.routes.iter().map(|route| ("route.proxy_credentials_file", route.proxy_credentials_file.as_str())),
    );
    let of_tunnels = config.routes.iter().map(|route| route.tunnel_stream_password_file.as_str());
    secrets.extend(of_tunnels.map(|file| ("route.tunnel_stream_password_file", file)));
    secrets.extend(config.feeds.values().map(|feed| ("feed.login_password_file", feed.login_password_file.as_str())));
    if !config.http.users.is_empty() {
        secrets.push(("the configuration, whose http.users has hashes of passwords,", &name));
    }
    let mut decisive = vec![
        ("p2ps.token_keys_file", config.p2ps.token_keys_file.as_str()),
        ("p2ps.client_ca_file", &config.p2ps.client_ca_file),
        ("source_distributor.nip_client_ca_file", &config.source_distributor.nip_client_ca_file),
        ("permissions.rights_ca_file", &rights.rights_ca_file),
    ];
    decisive.extend(secrets.iter().filter(|(what, _)| !what.starts_with("the configuration")).copied());
    decisive.push(("the configuration", &name));
    let mut told = with_mode(&secrets, 0o004, "read", "o-r");
    told.extend(with_mode(&decisive, 0o002, "changed", "o-w"));
    told
}

/// Words about those of these files that have a bit of the mode.
fn with_mode(files: &[(&str, &str)], bit: u32, done: &str, close: &str) -> Vec<String> {
    let has_it = |file: &str| std::fs::metadata(file).is_ok_and(|about| about.permissions().mode() & bit != 0);
    let told = |(what, file): &(&str, &str)| {
        format!("{what} {file} can be {done} by every user of this host: chmod {close} {file}")
    };
    files.iter().filter(|(_, file)| !file.is_empty() && has_it(file)).map(told).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_another_host_by_tls_alone() {
        for url in [
            "https://rights/x",
            "http://localhost:80/x",
            "http://127.0.0.1/x",
            "http://[::1]:8080/",
            "http://LOCALHOST",
        ] {
            assert!(!goes_in_the_clear(url), "{url}");
        }
        for url in
            ["http://rights/x", "http://localhost@rights/", "http://127.0.0.1.example.com/", "http://10.0.0.1:80"]
        {
            assert!(goes_in_the_clear(url), "{url}");
        }
        let mut config = Config::default();
        config.permissions.rights_url = "http://rights.example.com/".to_owned();
        assert!(faults(&config).is_empty());
        config.permissions.rights_token_file = "token".to_owned();
        assert!(faults(&config).iter().any(|fault| fault.contains("https://")));
    }

    #[test]
    fn secrets_that_others_can_read_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let (key, toml) = (folder.path().join("key.pem"), folder.path().join("quoteway.toml"));
        for (path, mode) in [(&key, 0o644), (&toml, 0o644)] {
            std::fs::write(path, "x").expect("written");
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        }
        let mut config = Config::default();
        config.p2ps.server_key_file = key.display().to_string();
        assert_eq!(exposed(&config, &toml).len(), 1, "a configuration without secrets may be read");
        config.http.users = vec!["a:viewer:hash".to_owned()];
        let told = exposed(&config, &toml);
        assert!(told.len() == 2 && told[1].contains("chmod o-r"), "{told:?}");
        for path in [&key, &toml] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o640)).expect("a mode");
        }
        assert!(exposed(&config, &toml).is_empty());
        let rights = folder.path().join("rights.toml");
        std::fs::write(&rights, "x").expect("written");
        config.permissions.rights_file = rights.display().to_string();
        for (mode, told) in [(0o644, "can be read"), (0o642, "can be changed"), (0o640, "")] {
            std::fs::set_permissions(&rights, std::fs::Permissions::from_mode(mode)).expect("a mode");
            let found = exposed(&config, &toml);
            assert_eq!(found.len(), usize::from(!told.is_empty()), "{mode:o}: {found:?}");
            assert!(found.iter().all(|text| text.contains(told) && text.contains("rights_file")), "{found:?}");
        }
        std::fs::set_permissions(&toml, std::fs::Permissions::from_mode(0o666)).expect("a mode");
        let found = exposed(&config, &toml);
        assert!(found.len() == 2 && found[1].contains("chmod o-w"), "{found:?}");
    }
}
