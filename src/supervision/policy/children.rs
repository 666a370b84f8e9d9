//! The children of a policy in their start order, findable by what a decision asks about.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::super::{ChildSpec, Failures};
use super::event::{ChildStatus, Incarnation};

/// A child's place in the start order.
pub(super) type Place = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Down, to be started when its turn comes.
    Ready,
    /// Down, to be started when a timer has run out and its turn comes.
    Backoff,
    Starting,
    Running {
        since: Instant,
    },
    Stopping,
    /// Down for good.
    Ended,
}

/// What a child is to be once it is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Up,
    Down,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Child<Id> {
    pub spec: ChildSpec<Id>,
    pub state: State,
    pub want: Want,
    /// The present life, or while it is down the one to come.
    pub incarnation: Incarnation,
    /// To be stopped, or being stopped.
    pub marked: bool,
    /// A restart granted to it alone has not taken place yet.
    pub restart_due: bool,
    /// One of the first start that has not come up: those after it wait for it.
    pub first_start: bool,
    pub failures: Failures,
}

impl<Id> Child<Id> {
    pub fn new(spec: ChildSpec<Id>, incarnation: Incarnation, first_start: bool) -> Self {
        Self {
            spec,
            state: State::Ready,
            want: Want::Up,
            incarnation,
            marked: false,
            restart_due: false,
            first_start,
            failures: Failures::default(),
        }
    }

    /// Whether there may be a process or an actor of it.
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::Starting | State::Running { .. } | State::Stopping)
    }

    pub fn status(&self) -> ChildStatus {
        match self.state {
            State::Ready => ChildStatus::Waiting,
            State::Backoff => ChildStatus::Backoff,
            State::Starting => ChildStatus::Starting,
            State::Running { .. } => ChildStatus::Running,
            State::Stopping => ChildStatus::Stopping,
            State::Ended => ChildStatus::Ended,
        }
    }

    fn belongs(&self, set: Set) -> bool {
        match set {
            Set::Live => self.is_live(),
            Set::Marked => self.marked && self.is_live(),
            Set::Unasked => self.marked && self.is_live() && self.state != State::Stopping,
            Set::Stopping => self.state == State::Stopping,
            Set::Pending => matches!(self.state, State::Ready | State::Backoff | State::Starting),
            Set::Backoff => self.state == State::Backoff,
            Set::FirstStart => self.first_start && self.state != State::Ended,
            Set::Again => self.state == State::Ready && !self.first_start,
            Set::Significant => self.spec.is_significant() && self.state != State::Ended,
        }
    }
}

/// A set of children that a decision asks about.
#[derive(Clone, Copy)]
pub(super) enum Set {
    Live,
    /// To be stopped, or being stopped.
    Marked,
    /// To be stopped and not told so yet.
    Unasked,
    Stopping,
    /// On the way up.
    Pending,
    Backoff,
    /// Of the first start, not come up yet.
    FirstStart,
    /// Ready, and not of the first start.
    Again,
    /// Significant and not ended.
    Significant,
}

const SETS: [Set; 9] = [
    Set::Live,
    Set::Marked,
    Set::Unasked,
    Set::Stopping,
    Set::Pending,
    Set::Backoff,
    Set::FirstStart,
    Set::Again,
    Set::Significant,
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Children<Id: Ord> {
    places: BTreeMap<Id, Place>,
    children: BTreeMap<Place, Child<Id>>,
    /// Kept beside the children so that no event costs more with many children than with few.
    sets: [BTreeSet<Place>; SETS.len()],
    next_place: Place,
}

impl<Id: Ord + Clone> Children<Id> {
    pub fn new() -> Self {
        Self { places: BTreeMap::new(), children: BTreeMap::new(), sets: Default::default(), next_place: 0 }
    }

    /// At the end of the start order. The id is not taken.
    pub fn push(&mut self, child: Child<Id>) -> Place {
        let place = self.next_place;
        self.next_place += 1;
        self.places.insert(child.spec.id().clone(), place);
        self.file(place, &child);
        self.children.insert(place, child);
        place
    }

    pub fn place(&self, id: &Id) -> Option<Place> {
        self.places.get(id).copied()
    }

    pub fn get(&self, place: Place) -> Option<&Child<Id>> {
        self.children.get(&place)
    }

    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// In start order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Place, &Child<Id>)> {
        self.children.iter().map(|(&place, child)| (place, child))
    }

    /// The places from `from` on, in start order.
    pub fn places_from(&self, from: Place) -> Vec<Place> {
        self.children.range(from..).map(|(&place, _)| place).collect()
    }

    pub fn set(&self, set: Set) -> &BTreeSet<Place> {
        &self.sets[set as usize]
    }

    /// The only way to change a child: its sets follow.
    pub fn update<T>(&mut self, place: Place, change: impl FnOnce(&mut Child<Id>) -> T) -> Option<T> {
        let mut child = self.children.remove(&place)?;
        let result = change(&mut child);
        self.file(place, &child);
        self.children.insert(place, child);
        Some(result)
    }

    pub fn remove(&mut self, place: Place) {
        if let Some(child) = self.children.remove(&place) {
            self.places.remove(child.spec.id());
            for places in &mut self.sets {
                places.remove(&place);
            }
        }
    }

    fn file(&mut self, place: Place, child: &Child<Id>) {
        for (set, places) in SETS.into_iter().zip(&mut self.sets) {
            if child.belongs(set) {
                places.insert(place);
            } else {
                places.remove(&place);
            }
        }
    }
}
