//! Flags of every process that takes a configuration file.

use std::path::{Path, PathBuf};

use clap::Args;

use super::rmds::lookup::Place;
use super::{ConfigError, Loaded};

/// The configuration file and which part of it is for this process.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file: TOML (`quoteway config` prints one with every parameter) or rmds.cnf
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub selection: Selection,
}

/// Which lines of an `rmds.cnf`, which is for a whole site, are for this process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Selection {
    /// Name under which this host stands in an rmds.cnf [default: the machine's name up to the first dot]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Instance of this process on the host, as in HOST.2*P2PS of an rmds.cnf [default: 1]
    #[arg(long, value_name = "NAME")]
    pub instance: Option<String>,
}

impl Selection {
    /// Host and instance, what is not given filled in.
    pub fn place(&self) -> Place {
        Place {
            host: self.host.clone().unwrap_or_else(short_host_name),
            instance: self.instance.clone().unwrap_or_else(|| "1".to_owned()),
        }
    }
}

impl ConfigArgs {
    /// The file's configuration as far as its own text says whether it is right; `None` where no file is given.
    ///
    /// # Errors
    /// Every fault of the file, each with its line.
    pub fn read(&self) -> Result<Option<(&Path, Loaded)>, ConfigError> {
        let Some(path) = &self.config else { return Ok(None) };
        super::load(path, &self.selection).map(|loaded| Some((path.as_path(), loaded)))
    }
}

fn short_host_name() -> String {
    let name = net::host::name();
    name.split('.').next().unwrap_or_default().trim().to_owned()
}
