//! The files of the page, in the binary.

/// A file: its path, its type, what is in it.
type Asset = (&'static str, &'static str, &'static [u8]);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

static ASSETS: &[Asset] = &[
    ("/", HTML, include_bytes!("page/index.html")),
    ("/app.js", SCRIPT, include_bytes!("page/app.js")),
    ("/feed.js", SCRIPT, include_bytes!("page/feed.js")),
    ("/market.js", SCRIPT, include_bytes!("page/market.js")),
    ("/series.js", SCRIPT, include_bytes!("page/series.js")),
    ("/detail.js", SCRIPT, include_bytes!("page/detail.js")),
    ("/pages.js", SCRIPT, include_bytes!("page/pages.js")),
    ("/replay.js", SCRIPT, include_bytes!("page/replay.js")),
    ("/scenario.js", SCRIPT, include_bytes!("page/scenario.js")),
    ("/system.js", SCRIPT, include_bytes!("page/system.js")),
    ("/topology.js", SCRIPT, include_bytes!("page/topology.js")),
    ("/inspect.js", SCRIPT, include_bytes!("page/inspect.js")),
    ("/act.js", SCRIPT, include_bytes!("page/act.js")),
    ("/dom.js", SCRIPT, include_bytes!("page/dom.js")),
    ("/style.css", STYLE, include_bytes!("page/style.css")),
    ("/icon.svg", "image/svg+xml", include_bytes!("page/icon.svg")),
    ("/vendor/uPlot.iife.min.js", SCRIPT, include_bytes!("page/vendor/uPlot.iife.min.js")),
    ("/vendor/uPlot.min.css", STYLE, include_bytes!("page/vendor/uPlot.min.css")),
    ("/vendor/LICENSE", "text/plain; charset=utf-8", include_bytes!("page/vendor/LICENSE")),
];

/// The file of a path: its type and what is in it.
pub(super) fn find(path: &str) -> Option<(&'static str, &'static [u8])> {
    ASSETS.iter().find(|(name, ..)| *name == path).map(|&(_, kind, bytes)| (kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_nobody_else_for_anything() {
        for (path, _, bytes) in ASSETS.iter().filter(|(path, ..)| !path.starts_with("/vendor/")) {
            let text = String::from_utf8_lossy(bytes);
            for address in ["http://", "https://", "//cdn", "@import"] {
                let found = text.matches(address).count();
                let allowed = text.matches("http://www.w3.org/").count() * usize::from(address == "http://");
                assert_eq!(found, allowed, "{path} names {address}");
            }
        }
    }
}
