//! How the serving threads are asked.

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::agents::monitor::{MonitorHandle, PATIENCE, Thread};

/// A thread has not answered in time, or has ended: its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silent(pub String);

/// Why one thread was not asked, or has not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAsked {
    /// There is no thread of this number: an id was made up, or is of another process.
    NoSuchThread {
        /// The number that was named.
        number: usize,
        /// Threads that there are; their numbers begin at 0.
        count: usize,
    },
    /// The thread is there.
    Silent(Silent),
}

/// The serving threads of this process.
#[derive(Clone)]
pub struct Threads(Vec<MonitorHandle>);

impl Threads {
    /// The threads that can be asked.
    pub fn new(monitors: Vec<MonitorHandle>) -> Self {
        Self(monitors)
    }

    /// The threads' names, in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|handle| handle.name.as_str())
    }

    /// Asks one thread.
    ///
    /// # Errors
    /// There is no such thread, or it does not answer.
    pub async fn ask<T: Send + 'static>(
        &self,
        number: usize,
        question: impl FnOnce(&mut Thread<'_>) -> T + Send + 'static,
    ) -> Result<T, NotAsked> {
        let handle = self.0.get(number).ok_or(NotAsked::NoSuchThread { number, count: self.0.len() })?;
        let (answer, answered) = oneshot::channel();
        // A caller that has given up does not get the answer.
        let question = Box::new(move |thread: &mut Thread<'_>| drop(answer.send(question(thread))));
        let silent = || NotAsked::Silent(Silent(handle.name.clone()));
        handle.ask(question).map_err(|_| silent())?;
        timeout(PATIENCE, answered).await.ok().and_then(Result::ok).ok_or_else(silent)
    }

    /// Asks every thread the same, all at once. The answers come in the order of the threads.
    pub async fn ask_all<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Thread<'_>) -> T + Clone + Send + 'static,
    ) -> Vec<Result<T, Silent>> {
        let mut waiting = Vec::new();
        for handle in &self.0 {
            let (answer, answered) = oneshot::channel();
            let question = question.clone();
            let put = handle.ask(Box::new(move |thread| drop(answer.send(question(thread)))));
            waiting.push(put.map(|()| answered).map_err(|_| Silent(handle.name.clone())));
        }
        let mut answers = Vec::new();
        for (answered, handle) in waiting.into_iter().zip(&self.0) {
            answers.push(match answered {
                Ok(answered) => {
                    let answer = timeout(PATIENCE, answered).await.ok().and_then(Result::ok);
                    answer.ok_or_else(|| Silent(handle.name.clone()))
                }
                Err(silent) => Err(silent),
            });
        }
        answers
    }
}
