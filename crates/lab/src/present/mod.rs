//! How results are shown: Markdown, a page with charts, CSV.

pub mod deviations;
pub mod difference;
mod histograms;
pub mod html;
pub mod published;
pub mod report;
pub mod summary;
