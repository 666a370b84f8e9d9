//! Who waits for which completions, and which completions wait to be taken. A completion is taken once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::sync::oneshot;

use super::owned::Owned;
use crate::agent::{Completion, Refusal};

/// The reply an agent waits for.
pub(super) type WaitReply = oneshot::Sender<Result<Option<Completion>, Refusal>>;

struct Waiter {
    among: Vec<u32>,
    reply: WaitReply,
    _timer: Option<Owned>,
}

/// A completion handed to somebody.
pub(super) struct Taken {
    pub(super) reply: Option<WaitReply>,
    pub(super) completion: Completion,
    /// Among which it was chosen; a choice among several is itself an input.
    pub(super) among: Vec<u32>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Joins {
    /// Made in this attempt and not yet taken or dropped.
    held: BTreeSet<u32>,
    waiters: BTreeMap<u64, Waiter>,
    next: u64,
    ended: BTreeMap<u32, Completion>,
    /// The ended ones in the order they ended.
    order: VecDeque<u32>,
}

impl Joins {
    /// A delegation the agent now holds.
    pub(super) fn made(&mut self, key: u32) {
        self.held.insert(key);
    }

    /// Whether the agent holds this delegation.
    pub(super) fn holds(&self, key: u32) -> bool {
        self.held.contains(&key)
    }

    /// Waits for the first of `among`: it is there already, or `timer` is asked for with the waiter's number.
    pub(super) fn wait(
        &mut self,
        among: Vec<u32>,
        reply: WaitReply,
        timer: impl FnOnce(u64) -> Option<Owned>,
    ) -> Option<Taken> {
        if let Some(&missing) = among.iter().find(|key| !self.held.contains(key)) {
            let reason = format!("delegation {missing} is not one whose completion can still be taken");
            let _nobody = reply.send(Err(Refusal { key: "delegation".into(), reason }));
            return None;
        }
        if let Some(at) = self.order.iter().position(|key| among.contains(key)) {
            let key = self.order.remove(at)?;
            return self.take(key, Some(reply), among);
        }
        self.next += 1;
        let timer = timer(self.next);
        self.waiters.insert(self.next, Waiter { among, reply, _timer: timer });
        None
    }

    /// A delegation ended: whoever waits for it longest gets it, or it is kept.
    pub(super) fn ended(&mut self, completion: Completion) -> Option<Taken> {
        let key = completion.index;
        if !self.held.contains(&key) {
            return Some(Taken { reply: None, completion, among: Vec::new() });
        }
        self.ended.insert(key, completion);
        let waiting = self.waiters.iter().find(|(_, w)| w.among.contains(&key) && !w.reply.is_closed());
        match waiting.map(|(&number, _)| number) {
            Some(number) => {
                let Waiter { among, reply, .. } = self.waiters.remove(&number)?;
                self.take(key, Some(reply), among)
            }
            None => {
                self.order.push_back(key);
                None
            }
        }
    }

    /// The reply of the waiter whose time is over; nothing is chosen.
    pub(super) fn expired(&mut self, waiter: u64) -> Option<(WaitReply, Vec<u32>)> {
        self.waiters.remove(&waiter).map(|waiter| (waiter.reply, waiter.among))
    }

    /// Nobody will wait for this delegation: its completion, if it has ended.
    pub(super) fn dropped(&mut self, key: u32) -> Option<Taken> {
        self.held.remove(&key);
        self.order.retain(|&other| other != key);
        self.ended.remove(&key).map(|completion| Taken { reply: None, completion, among: Vec::new() })
    }

    /// Nobody will wait for anything any more: replies are dropped, and every completion not yet taken comes out.
    pub(super) fn withdraw(&mut self) -> Vec<Taken> {
        self.waiters.clear();
        self.held.clear();
        self.order.clear();
        let ended = std::mem::take(&mut self.ended);
        ended.into_values().map(|completion| Taken { reply: None, completion, among: Vec::new() }).collect()
    }

    fn take(&mut self, key: u32, reply: Option<WaitReply>, among: Vec<u32>) -> Option<Taken> {
        let completion = self.ended.remove(&key)?;
        self.held.remove(&key);
        Some(Taken { reply, completion, among })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capsule::Usage;
    use crate::journal::CompletionStatus;

    fn completion(index: u32) -> Completion {
        let status = CompletionStatus::Ok;
        Completion { index, status, answer: String::new(), answer_len: 0, detail: None, spent: Usage::default() }
    }

    fn joins(keys: impl IntoIterator<Item = u32>) -> Joins {
        let mut joins = Joins::default();
        keys.into_iter().for_each(|key| joins.made(key));
        joins
    }

    #[test]
    fn the_first_to_end_is_the_first_taken_whatever_the_order_asked_for() {
        let mut joins = joins([0, 1, 2]);
        assert!(joins.ended(completion(2)).is_none());
        assert!(joins.ended(completion(0)).is_none());
        let (reply, _answer) = oneshot::channel();
        let taken = joins.wait(vec![0, 1, 2], reply, |_| None).expect("one has ended");
        assert_eq!((taken.completion.index, taken.among), (2, vec![0, 1, 2]));
    }

    #[test]
    fn a_completion_is_taken_once_and_a_second_wait_is_refused() {
        let mut joins = joins([0]);
        let (reply, _answer) = oneshot::channel();
        assert!(joins.wait(vec![0], reply, |_| None).is_none());
        assert!(joins.ended(completion(0)).is_some());
        let (reply, mut answer) = oneshot::channel();
        assert!(joins.wait(vec![0], reply, |_| None).is_none());
        assert!(answer.try_recv().expect("an answer at once").is_err());
    }

    #[test]
    fn a_waiter_that_is_gone_does_not_swallow_the_completion() {
        let mut joins = joins([0]);
        let (reply, answer) = oneshot::channel();
        assert!(joins.wait(vec![0], reply, |_| None).is_none());
        drop(answer);
        assert!(joins.ended(completion(0)).is_none(), "it is kept");
        let (reply, _answer) = oneshot::channel();
        assert!(joins.wait(vec![0], reply, |_| None).is_some());
    }

    #[test]
    fn what_was_dropped_comes_out_as_soon_as_it_ends() {
        let mut joins = joins([0, 1]);
        assert!(joins.dropped(0).is_none());
        assert!(joins.ended(completion(0)).is_some_and(|taken| taken.reply.is_none()));
        assert!(joins.ended(completion(1)).is_none());
        assert!(joins.dropped(1).is_some());
    }
}
