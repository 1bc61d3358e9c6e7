//! Both ends where Aeron is not built in: types without values, so that none can be used by mistake.

use std::os::fd::{AsFd, BorrowedFd};

use crate::{AeronError, Counters, Event, Offer, Settings};

/// A publication: there is none without the feature `aeron`.
#[derive(Debug)]
pub enum Publication {}

impl Publication {
    /// Says what to build.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: Settings) -> Result<Self, AeronError> {
        Err(AeronError::NotBuiltIn)
    }

    /// Of no publication.
    pub fn turn(&mut self, _: u64) {
        match *self {}
    }

    /// Of no publication.
    pub fn timeout(&self) -> u64 {
        match *self {}
    }

    /// Of no publication.
    pub fn offer(&mut self, _: &[u8]) -> Offer {
        match *self {}
    }

    /// Of no publication.
    pub fn session(&self) -> Option<i32> {
        match *self {}
    }

    /// Of no publication.
    pub fn counters(&self) -> Counters {
        match *self {}
    }

    /// Of no publication.
    pub fn warnings(&mut self) -> Vec<String> {
        match *self {}
    }
}

/// Subscriptions: there are none without the feature `aeron`.
#[derive(Debug)]
pub enum Subscriptions {}

impl Subscriptions {
    /// Says what to build.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: &Settings) -> Result<Self, AeronError> {
        Err(AeronError::NotBuiltIn)
    }

    /// Of no subscriptions.
    pub fn read(&mut self, _: usize, _: impl FnMut(Event<'_>)) -> bool {
        match *self {}
    }

    /// Of no subscriptions.
    pub fn counters(&self) -> Counters {
        match *self {}
    }

    /// Of no subscriptions.
    pub fn warnings(&mut self) -> Vec<String> {
        match *self {}
    }
}

impl AsFd for Subscriptions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
