//! A session's account at work: what it may decide alone, what its delegator must agree to, what it must tell.

use std::collections::BTreeMap;

use super::message::{ChildMessage, Delegator};
use crate::capsule::{Account, Answer, Ask, Exhausted, Notice, Pending, Reserved, Settled, Usage};

/// What an ask was for; comes back with its answer.
pub(super) enum Purpose<P> {
    /// Something of the session's own.
    Own(P),
    /// One of its children asked: answer the child.
    Child { key: u32, token: u64, ask: Ask },
    /// Whoever asked is no more.
    Nobody,
}

/// How an ask went.
pub(super) enum Asked<P> {
    /// It is granted.
    Granted(Purpose<P>),
    /// It is refused; nothing changed.
    Refused(Purpose<P>, Exhausted),
    /// The delegator must agree first.
    Later,
}

/// See the module.
pub(super) struct Money<P> {
    account: Account,
    delegator: Delegator,
    key: u32,
    pending: BTreeMap<u64, (Pending, Purpose<P>)>,
    next: u64,
    /// What is kept of each child's money until its completion is taken.
    reserved: BTreeMap<u32, Reserved>,
}

impl<P> Money<P> {
    pub(super) fn new(account: Account, delegator: Delegator, key: u32) -> Self {
        Self { account, delegator, key, pending: BTreeMap::new(), next: 0, reserved: BTreeMap::new() }
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// How many asks have no answer yet.
    pub(super) fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// What was spent here and below.
    pub(super) fn spent(&self) -> Usage {
        self.account.spent()
    }

    /// Asks for money.
    pub(super) fn ask(&mut self, ask: Ask, purpose: Purpose<P>) -> Asked<P> {
        match self.account.ask(ask) {
            Answer::Granted => self.granted(purpose),
            Answer::Refused(why) => Asked::Refused(purpose, why),
            Answer::AskParent(ask, pending) => {
                self.next += 1;
                let token = self.next;
                self.pending.insert(token, (pending, purpose));
                self.delegator.tell(ChildMessage::Ask { key: self.key, token, ask });
                Asked::Later
            }
        }
    }

    /// The delegator's answer to ask `token`.
    pub(super) fn answered(&mut self, token: u64, answer: Result<(), Exhausted>) -> Option<Asked<P>> {
        let (pending, purpose) = self.pending.remove(&token)?;
        Some(match (answer, purpose) {
            (Err(why), purpose) => {
                self.account.denied(pending);
                Asked::Refused(purpose, why)
            }
            (Ok(()), Purpose::Nobody) => {
                let notice = self.account.abandoned(pending);
                self.tell(notice);
                return None;
            }
            (Ok(()), Purpose::Child { key, .. }) if !self.reserved.contains_key(&key) => {
                let notice = self.account.abandoned(pending);
                self.tell(notice);
                return None;
            }
            (Ok(()), purpose) => {
                self.account.granted(pending);
                self.granted(purpose)
            }
        })
    }

    fn granted(&mut self, purpose: Purpose<P>) -> Asked<P> {
        if let Purpose::Child { key, ask, .. } = &purpose
            && let Some(reserved) = self.reserved.get_mut(key)
        {
            reserved.add(ask);
        }
        Asked::Granted(purpose)
    }

    /// Nobody of this session waits for its own asks any more.
    pub(super) fn withdraw(&mut self) {
        for (_, purpose) in self.pending.values_mut() {
            if matches!(purpose, Purpose::Own(_)) {
                *purpose = Purpose::Nobody;
            }
        }
    }

    /// A child was paid for.
    pub(super) fn keep(&mut self, key: u32, reserved: Reserved) {
        self.reserved.insert(key, reserved);
    }

    /// A child was paid for and could not be made.
    pub(super) fn refund(&mut self, reserved: Reserved) {
        let notice = self.account.cancel(reserved);
        self.tell(notice);
    }

    /// Ends a child's reservation, where one is kept. `spent`: what its subtree spent, where that is known.
    pub(super) fn settle(&mut self, key: u32, spent: Option<Usage>) -> Option<Settled> {
        let reserved = self.reserved.remove(&key)?;
        let settled = self.account.settle(reserved, spent);
        self.tell(settled.notice);
        Some(settled)
    }

    /// Charges usage nobody could refuse.
    pub(super) fn charge(&mut self, usage: Usage) {
        let notice = self.account.charge(usage);
        self.tell(notice);
    }

    /// Takes in what a child gave notice of.
    pub(super) fn notice(&mut self, key: u32, notice: Notice) {
        if let Some(reserved) = self.reserved.get_mut(&key) {
            let up = self.account.notice(reserved, notice);
            self.tell(up);
        }
    }

    fn tell(&self, notice: Option<Notice>) {
        if let Some(notice) = notice {
            self.delegator.tell(ChildMessage::Notice { key: self.key, notice });
        }
    }
}
