//! Scenarios: what a client has to live with, as steps in a text, and a judge of what it sends.
//!
//! A [`Play`] is the server that a client under test is connected to. It knows no socket, clock or process: messages and times go in, acts come
//! out. `scenario-io` plays it on sockets, beside the client's process.
//!
//! | module | what it is |
//! |---|---|
//! | [`script`], [`words`], `fields`, [`directory`], [`special`] | the step language: lines, messages as words, services |
//! | [`commands`] | the commands of `sink-driven-src`, which are steps as well |
//! | [`mod@file`] | a scenario's file (TOML) |
//! | [`program`] | its steps as what is to be done |
//! | [`play`] | the play: steps in their time, servers and judges |
//! | [`asks`], [`consumer`] | the consumer in front of a provider under test: its steps, and what it does |
//! | [`standby`] | the parts of a warm-standby pair |
//! | [`market`] | the server: what it answers by itself, and what steps have it do |
//! | [`judge`] | the rules, and what was found |
//! | [`verdict`] | the verdict as text, JUnit XML and JSON |
//! | [`library`] | the scenarios that ship |
#![forbid(unsafe_code)]

pub mod asks;
pub mod commands;
pub mod consumer;
pub mod directory;
pub mod encoding;
mod fields;
pub mod file;
pub mod judge;
pub mod library;
pub mod market;
pub mod numbers;
mod place;
pub mod play;
pub mod program;
pub mod script;
mod side;
pub mod special;
pub mod standby;
mod step_messages;
mod values;
pub mod verdict;
pub mod words;

pub use market::Act;
pub use play::{End, Play};
