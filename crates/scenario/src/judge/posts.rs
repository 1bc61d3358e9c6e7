//! Posts: what is repeated, and when.

use std::collections::BTreeMap;

use rwf::msg::{Msg, NakCode, PostFlags};

use super::notes::{Notes, Pace};
use super::rules;

/// Different posts that are remembered.
const POSTS_MAX: usize = 10_000;

/// Content of a post: its item's name and its content. Numbers of posts change with each repetition.
type Content = (Vec<u8>, Vec<u8>);

#[derive(Debug, Default)]
struct Sent {
    repetitions: Pace,
    answered: bool,
    refused: bool,
    after_refusal: u64,
}

/// The rules of posts.
#[derive(Debug, Default)]
pub(super) struct Posts {
    sent: BTreeMap<Content, Sent>,
    /// Which content an id has, by connection and stream.
    ids: BTreeMap<(u32, i32, u32), Content>,
}

impl Posts {
    /// A connection is gone with the ids of its posts.
    pub(super) fn closed(&mut self, conn: u32) {
        self.ids.retain(|(of, ..), _| *of != conn);
    }

    /// A message came from the client.
    pub(super) fn client_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>, notes: &mut Notes) {
        let Msg::Post(post) = msg else { return };
        let name = post.key.and_then(|key| key.name).unwrap_or_default();
        let content: Content = (name.to_vec(), post.body.to_vec());
        if self.sent.len() >= POSTS_MAX && !self.sent.contains_key(&content) {
            self.sent.pop_first();
        }
        if self.ids.len() >= POSTS_MAX {
            self.ids.pop_first();
        }
        if let Some(id) = post.post_id.filter(|_| post.flags.contains(PostFlags::ACK)) {
            self.ids.insert((conn, post.stream_id, id), content.clone());
        }
        let sent = self.sent.entry(content).or_default();
        let count = sent.repetitions.note(now);
        if sent.refused {
            sent.after_refusal += 1;
            let (times, most) = (sent.after_refusal, notes.limit("posts-after-nak"));
            if times as f64 > most {
                let text = format!("the same post came {times} times after it was refused, {most} are the most");
                notes.broken(&rules::POST_NAK, now, text);
            }
        } else if !sent.answered && post.flags.contains(PostFlags::ACK) {
            let most = notes.limit("post-retries-in-10-s");
            notes.occasion(&rules::POST_RETRIES);
            if count as f64 > most + 1.0 {
                let text =
                    format!("the same unanswered post came {count} times in 10 s, {most} repetitions are the most");
                notes.broken(&rules::POST_RETRIES, now, text);
            }
        }
    }

    /// A message went to the client.
    pub(super) fn server_message(&mut self, conn: u32, msg: &Msg<'_>, notes: &mut Notes) {
        let Msg::Ack(ack) = msg else { return };
        let content = self.ids.remove(&(conn, ack.stream_id, ack.ack_id));
        let Some(sent) = content.and_then(|content| self.sent.get_mut(&content)) else { return };
        sent.answered = true;
        sent.refused = ack.nak_code.is_some_and(|code| code != NakCode::NONE);
        if sent.refused {
            notes.occasion(&rules::POST_NAK);
        }
    }
}
