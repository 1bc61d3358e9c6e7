//! The store as a program of its own.

use clap::Parser;

fn main() -> anyhow::Result<()> {
    lbm_store_io::command::run(&lbm_store_io::command::Args::parse(), |line| println!("{line}"))
}
