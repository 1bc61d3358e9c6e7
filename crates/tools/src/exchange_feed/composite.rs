//! Several feeds and composites over them, by a file.

use std::os::fd::AsFd as _;
use std::path::Path;

use anyhow::anyhow;
use clap::Parser as _;
use feed::MarketSource;
use feed::composite::{CompositeItem, CompositeSource, Member};
use net::tcp::{Tcp, TcpConfig};
use serde::Deserialize;

use super::Args;
use crate::source::serve::Composite;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    source: Vec<Source>,
    composite: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    name: String,
    feed: String,
    #[serde(default)]
    flags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    name: String,
    members: Vec<String>,
    needed: Option<usize>,
    longest_s: Option<f64>,
}

/// Whether a file has composites.
pub(super) fn has_composites(path: &Path) -> bool {
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    is_toml && std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line.trim() == "[[composite]]"))
}

impl File {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let file: Self = toml::from_str(&text)?;
        if file.source.is_empty() {
            return Err(anyhow!("composites are over sources: write [[source]] with name and feed"));
        }
        for (n, source) in file.source.iter().enumerate() {
            if source.name.is_empty()
                || source.name.contains(':')
                || file.source[..n].iter().any(|s| s.name == source.name)
            {
                return Err(anyhow!("source {:?}: each has a name of its own, without a colon", source.name));
            }
        }
        Ok(file)
    }

    fn items(&self) -> anyhow::Result<Vec<CompositeItem>> {
        let member = |text: &String| -> anyhow::Result<Member> {
            let known = || self.source.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
            let (of, item) = text.split_once(':').ok_or_else(|| anyhow!("{text}: a member is written SOURCE:ITEM"))?;
            let source = self.source.iter().position(|source| source.name == of);
            let source = source.ok_or_else(|| anyhow!("{text}: there is no source {of}, but {}", known()))?;
            Ok(Member { source, item: item.to_owned(), name: of.to_owned() })
        };
        let item = |item: &Item| -> anyhow::Result<CompositeItem> {
            let members: Vec<Member> = item.members.iter().map(member).collect::<anyhow::Result<_>>()?;
            let needed = item.needed.unwrap_or(members.len());
            if needed == 0 || needed > members.len() {
                return Err(anyhow!("needed is {needed} of {} members", members.len()));
            }
            let longest = item.longest_s.filter(|seconds| !(*seconds > 0.0 && *seconds < 1e9));
            if let Some(wrong) = longest {
                return Err(anyhow!("longest_s is {wrong}: seconds, more than 0"));
            }
            let longest_ns = item.longest_s.map(|seconds| (seconds * 1e9) as u64);
            Ok(CompositeItem { name: item.name.clone(), members, needed, longest_ns })
        };
        self.composite.iter().map(|one| item(one).map_err(|e| anyhow!("composite {}: {e}", one.name))).collect()
    }
}

/// Opens the sources of a file, and composites over them.
pub(super) fn open(path: &Path, say: &mut dyn FnMut(&str)) -> anyhow::Result<Composite> {
    let fault = |e: anyhow::Error| anyhow!("{}: {e}", path.display());
    let file = File::read(path).map_err(fault)?;
    let items = file.items().map_err(fault)?;
    let mut wakes = Tcp::new(TcpConfig::default())?;
    let mut sources: Vec<Box<dyn MarketSource>> = Vec::new();
    for (n, source) in file.source.iter().enumerate() {
        let words = [&["feed".to_owned()], &source.flags[..], &["--".to_owned(), source.feed.clone()]].concat();
        let args = Args::try_parse_from(words).map_err(|e| fault(anyhow!("source {}: {e}", source.name)))?;
        if args.nip.is_some() || has_composites(&args.file) {
            return Err(fault(anyhow!(
                "source {}: it is a file or a site, and is not published by itself",
                source.name
            )));
        }
        let opened = args.open(None, say).map_err(|e| fault(anyhow!("source {}: {e}", source.name)))?;
        if let Some(wake) = opened.wake() {
            // What it stands for is open as long as the source is.
            wakes.watch(wake, n as u32)?;
        }
        sources.push(Box::new(opened));
    }
    let source = CompositeSource::new(sources, items, net::clock::wall());
    Ok(Composite::live(Box::new(source), wakes.as_fd().try_clone_to_owned()?))
}
