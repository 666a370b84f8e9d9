use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;

fn tokens(n: u64) -> Usage {
    Usage { tokens: n, ..Usage::default() }
}

fn ceiling(n: u64) -> Budget {
    Budget { tokens: Some(n), ..Budget::default() }
}

/// Sets up a child under an account that decides alone.
fn start(parent: &mut Account, slice: Option<Budget>, own: Budget) -> Child {
    let child = parent.child(slice.as_ref(), &own).unwrap();
    assert_eq!(parent.ask(child.ask), Answer::Granted);
    child
}

fn refused(answer: Answer) -> Exhausted {
    match answer {
        Answer::Refused(exhausted) => exhausted,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn where_no_ceiling_stands_nothing_is_asked_and_nothing_refused() {
    let mut root = Account::root(&Budget::default());
    let child = start(&mut root, None, Budget::default());
    let mut account = child.account;
    assert_eq!(account.draw(tokens(u64::MAX)), Answer::Granted);
    assert_eq!(account.draw(tokens(u64::MAX)), Answer::Granted);
    assert_eq!(account.left(), Budget::default());
    let settled = root.settle(child.reserved, Some(account.spent()));
    assert_eq!((settled.notice, root.spent().delegations, root.is_idle()), (None, 1, true));
}

#[test]
fn a_named_slice_is_set_aside_and_the_rest_comes_back_when_it_is_settled() {
    let mut root = Account::root(&ceiling(100));
    let mut child = start(&mut root, Some(ceiling(60)), Budget::default());
    assert_eq!((root.left().tokens, child.slice, child.cap), (Some(40), ceiling(60), None));
    assert_eq!(root.child(Some(&ceiling(41)), &Budget::default()).unwrap_err().key, "budget.tokens");
    assert_eq!(child.account.draw(tokens(60)), Answer::Granted);
    assert_eq!(refused(child.account.draw(tokens(1))).left, 0);
    assert_eq!(root.left().tokens, Some(40), "what a slice spends is not spent twice");
    root.settle(child.reserved, Some(tokens(25)));
    assert_eq!((root.left().tokens, root.spent().tokens, root.is_idle()), (Some(75), 25, true));
}

#[test]
fn a_slice_above_the_childs_own_ceiling_sets_aside_no_more_than_it_can_spend() {
    let mut root = Account::root(&ceiling(100));
    let child = start(&mut root, Some(ceiling(60)), ceiling(10));
    assert_eq!((root.left().tokens, child.slice, child.account.left().tokens), (Some(90), ceiling(10), Some(10)));
    root.settle(child.reserved, None);
}

#[test]
fn without_a_slice_siblings_draw_from_the_same_remainder_and_the_cap_is_told() {
    let mut root = Account::root(&ceiling(100));
    let mut first = start(&mut root, None, Budget::default());
    let mut second = start(&mut root, None, ceiling(30));
    assert_eq!((first.cap, second.cap), (Some(ceiling(100)), None));
    assert_eq!(refused(second.account.draw(tokens(31))).left, 30, "its own ceiling holds too");
    assert_eq!(root.reserved(), Usage::default());

    let draw = |root: &mut Account, child: &mut Child, n| match child.account.draw(tokens(n)) {
        Answer::AskParent(ask, pending) => match root.ask(ask) {
            Answer::Granted => {
                child.reserved.add(&ask);
                child.account.granted(pending);
                true
            }
            _ => {
                child.account.denied(pending);
                false
            }
        },
        Answer::Granted => panic!("decided alone"),
        Answer::Refused(_) => false,
    };
    assert!(draw(&mut root, &mut first, 80));
    assert!(!draw(&mut root, &mut second, 21), "the remainder is 20, whatever the cap");
    assert!(draw(&mut root, &mut second, 20));
    assert!(!draw(&mut root, &mut first, 1));
    for child in [first, second] {
        root.settle(child.reserved, Some(child.account.spent()));
    }
    assert_eq!((root.spent().tokens, root.is_idle()), (100, true));
}

#[test]
fn depth_and_wall_are_inherited_and_only_shrink() {
    let minutes = |m: u64| Some(Duration::from_secs(60 * m));
    let root = Account::root(&Budget { depth: Some(2), wall: minutes(30), ..Budget::default() });
    let slice = Budget { wall: minutes(50), depth: Some(9), ..Budget::default() };
    let child = root.child(Some(&slice), &Budget { wall: minutes(20), ..Budget::default() }).unwrap();
    assert_eq!((child.account.depth_left(), child.account.wall()), (Some(1), minutes(20)));
    let leaf = child.account.child(None, &Budget::default()).unwrap().account;
    assert_eq!((leaf.depth_left(), leaf.wall()), (Some(0), minutes(20)));
    assert_eq!(leaf.child(None, &Budget::default()).unwrap_err().key, "budget.depth");
}

#[test]
fn a_delegation_is_paid_for_and_given_back_if_it_was_not_begun() {
    let mut root = Account::root(&Budget { delegations: Some(1), ..ceiling(10) });
    let before = root.clone();
    let child = start(&mut root, Some(ceiling(10)), Budget::default());
    assert_eq!(root.child(None, &Budget::default()).unwrap_err().key, "budget.delegations");
    assert_eq!(root.cancel(child.reserved), None);
    assert_eq!(root, before);
}

#[test]
fn usage_reported_late_is_debt_up_the_path_and_refuses_the_next_draw() {
    let mut root = Account::root(&ceiling(100));
    let mut child = start(&mut root, Some(ceiling(50)), Budget::default());
    let notice = child.account.charge(tokens(70)).unwrap();
    assert_eq!(notice.spend, tokens(20), "within the slice it was set aside already");
    assert_eq!(root.notice(&mut child.reserved, notice), None);
    let call = Usage { tool_calls: 1, ..Usage::default() };
    assert_eq!(refused(child.account.draw(call)).key, "budget.tokens");
    assert_eq!(root.left().tokens, Some(30));
    root.settle(child.reserved, Some(tokens(70)));
    assert_eq!((root.spent().tokens, root.is_idle()), (70, true));
    // After the child has gone its parent is charged itself; the root has nobody above to be told.
    assert!(root.charge(tokens(40)).is_some());
    assert_eq!(root.debt(), tokens(10));
    assert_eq!(refused(root.draw(tokens(1))).key, "budget.tokens");
}

#[test]
fn an_ending_that_says_nothing_keeps_all_that_was_set_aside_as_spent() {
    let mut root = Account::root(&ceiling(100));
    let child = start(&mut root, Some(ceiling(40)), Budget::default());
    let settled = root.settle(child.reserved, None);
    assert!(settled.estimated);
    assert_eq!((settled.spent, root.spent().tokens, root.left().tokens), (tokens(40), 40, Some(60)));
}

#[test]
fn sums_that_no_longer_fit_are_refused_and_not_wrapped() {
    let mut root = Account::root(&ceiling(u64::MAX));
    assert_eq!(root.draw(tokens(u64::MAX)), Answer::Granted);
    assert_eq!(refused(root.draw(tokens(u64::MAX))).left, 0);
    let unlimited = Account::root(&Budget::default());
    assert!(unlimited.child(Some(&ceiling(u64::MAX)), &Budget::default()).is_ok());
}

#[test]
fn what_is_granted_to_somebody_who_is_no_more_goes_all_the_way_back() {
    let mut root = Account::root(&ceiling(100));
    let mut middle = start(&mut root, None, Budget::default());
    let mut lower = start(&mut middle.account, None, Budget::default());
    let before = (root.clone(), middle.account.clone());
    // The lowest asks through both, and dies while the root says yes.
    let asked = lower.account.ask(Ask { spend: tokens(5), hold: tokens(10) });
    let Answer::AskParent(of_middle, _dies_with_it) = asked else { panic!("decided alone") };
    let Answer::AskParent(to_root, pending) = middle.account.ask(of_middle) else { panic!("decided alone") };
    assert_eq!(root.ask(to_root), Answer::Granted);
    middle.reserved.add(&to_root);
    assert_eq!((root.spent().tokens, root.reserved().tokens), (5, 10));
    let notice = middle.account.abandoned(pending).unwrap();
    assert_eq!(root.notice(&mut middle.reserved, notice), None);
    assert_eq!((&root, &middle.account), (&before.0, &before.1));
    assert_eq!(middle.reserved.held(), &Usage::default());

    // Granted further down, what is given back passes through.
    let asked = middle.account.ask(of_middle);
    let Answer::AskParent(to_root, pending) = asked else { panic!("decided alone") };
    assert_eq!(root.ask(to_root), Answer::Granted);
    middle.reserved.add(&to_root);
    lower.reserved.add(&middle.account.granted(pending));
    let given_back = Notice { release: tokens(10), spend: Usage::default(), refund: tokens(5) };
    assert_eq!(middle.account.notice(&mut lower.reserved, given_back), Some(given_back));
    root.notice(&mut middle.reserved, given_back);
    assert_eq!((root, middle.account), before);
}

// A tree of accounts whose messages are delivered in any order that keeps each pair's own.

enum Asker {
    /// The session itself, for something it wants to do.
    Own,
    /// The session itself, for a child it wants to set up.
    SetUp(Box<Child>),
    /// A child's ask on its way up.
    Child(usize, u64, Ask),
}

enum Up {
    Ask(u64, Ask),
    Notice(Notice),
}

struct Node {
    parent: Option<usize>,
    live: bool,
    account: Account,
    /// What the parent keeps of this node.
    reserved: Option<Reserved>,
    /// What waits for the parent, by the number its answer will carry: answers may come in another order.
    waiting: BTreeMap<u64, (Asker, Pending)>,
    asked: u64,
    up: VecDeque<Up>,
    down: VecDeque<(u64, bool)>,
    /// What it was granted to spend for itself, and what its settled children spent.
    own: Usage,
    below: Usage,
}

struct World {
    nodes: Vec<Node>,
    root: Budget,
    late: bool,
}

impl World {
    fn new(root: Budget, late: bool) -> Self {
        let mut world = Self { nodes: Vec::new(), root, late };
        world.add(None, Account::root(&root), None);
        world
    }

    fn add(&mut self, parent: Option<usize>, account: Account, reserved: Option<Reserved>) {
        self.nodes.push(Node {
            parent,
            live: true,
            account,
            reserved,
            waiting: BTreeMap::new(),
            asked: 0,
            up: VecDeque::new(),
            down: VecDeque::new(),
            own: Usage::default(),
            below: Usage::default(),
        });
    }

    fn children(&self, node: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&n| self.nodes[n].live && self.nodes[n].parent == Some(node)).collect()
    }

    fn notice(&mut self, node: usize, notice: Option<Notice>) {
        if let Some(notice) = notice.filter(|_| self.nodes[node].parent.is_some()) {
            self.nodes[node].up.push_back(Up::Notice(notice));
        }
    }

    /// Puts an ask to `node`'s account on behalf of `asker`.
    fn ask(&mut self, node: usize, ask: Ask, asker: Asker) {
        let before = self.nodes[node].account.clone();
        match self.nodes[node].account.ask(ask) {
            Answer::Granted => self.answered(node, asker, ask, true),
            Answer::Refused(_) => {
                assert_eq!(self.nodes[node].account, before, "a refusal changes nothing");
                self.answered(node, asker, ask, false);
            }
            Answer::AskParent(up, pending) => {
                assert!(self.nodes[node].parent.is_some(), "a root asks nobody");
                let node = &mut self.nodes[node];
                node.asked += 1;
                node.waiting.insert(node.asked, (asker, pending));
                node.up.push_back(Up::Ask(node.asked, up));
            }
        }
    }

    fn answered(&mut self, node: usize, asker: Asker, ask: Ask, yes: bool) {
        match asker {
            Asker::Own if yes => self.nodes[node].own = self.nodes[node].own.plus(&ask.spend),
            Asker::SetUp(child) if yes => {
                self.nodes[node].own = self.nodes[node].own.plus(&ask.spend);
                self.add(Some(node), child.account, Some(child.reserved));
            }
            Asker::Own | Asker::SetUp(_) => {}
            Asker::Child(child, number, ask) => {
                if yes && let Some(reserved) = &mut self.nodes[child].reserved {
                    reserved.add(&ask);
                }
                self.nodes[child].down.push_back((number, yes));
            }
        }
    }

    /// Delivers one message to or from `node`; whether there was one.
    fn step(&mut self, node: usize) -> bool {
        if let Some((number, yes)) = self.nodes[node].down.pop_front() {
            let (asker, pending) = self.nodes[node].waiting.remove(&number).unwrap();
            let dead = matches!(&asker, Asker::Child(child, ..) if !self.nodes[*child].live);
            if yes && dead {
                let notice = self.nodes[node].account.abandoned(pending);
                self.notice(node, notice);
                return true;
            }
            let account = &mut self.nodes[node].account;
            let ask = if yes { account.granted(pending) } else { account.denied(pending) };
            self.answered(node, asker, ask, yes);
            return true;
        }
        let (Some(parent), Some(message)) = (self.nodes[node].parent, self.nodes[node].up.pop_front()) else {
            return false;
        };
        match message {
            Up::Ask(number, ask) => self.ask(parent, ask, Asker::Child(node, number, ask)),
            Up::Notice(notice) => {
                let mut reserved = self.nodes[node].reserved.take().unwrap();
                let up = self.nodes[parent].account.notice(&mut reserved, notice);
                self.nodes[node].reserved = Some(reserved);
                self.notice(parent, up);
            }
        }
        true
    }

    fn drain(&mut self) {
        while (0..self.nodes.len()).any(|node| self.nodes[node].live && self.step(node)) {}
    }

    /// With no message on its way, parent and child agree to the unit.
    fn quiesce(&mut self) {
        self.drain();
        for node in self.nodes.iter().filter(|node| node.live) {
            let Some(reserved) = &node.reserved else { continue };
            for (axis, line) in Axis::ALL.into_iter().zip(&node.account.lines).filter(|(_, line)| line.is_shared()) {
                assert_eq!(reserved.held.get(axis), line.reserved, "{axis:?} set aside above and here");
                assert_eq!(reserved.drawn.get(axis), line.spent, "{axis:?} spent above and here");
            }
        }
    }

    /// A node ends: everything below it has ended, and every message was delivered.
    fn end(&mut self, node: usize) {
        self.drain();
        for child in self.children(node) {
            self.end(child);
        }
        self.drain();
        let Node { parent: Some(parent), own, below, .. } = self.nodes[node] else { return };
        let spent = self.nodes[node].account.spent();
        assert_eq!(spent, own.plus(&below), "an account knows exactly what its subtree spent");
        assert!(self.nodes[node].account.is_idle());
        self.settle(parent, node, Some(spent));
    }

    /// A node and all below it die at once, their messages with them. What is known of their spending may be lost.
    fn crash(&mut self, node: usize, known: bool) {
        let Some(parent) = self.nodes[node].parent else { return };
        let mut dead = vec![node];
        let mut spent = Usage::default();
        while let Some(node) = dead.pop() {
            dead.extend(self.children(node));
            spent = spent.plus(&self.nodes[node].own).plus(&self.nodes[node].below);
            self.nodes[node].live = false;
            self.nodes[node].waiting.clear();
            self.nodes[node].up.clear();
            self.nodes[node].down.clear();
        }
        self.settle(parent, node, known.then_some(spent));
    }

    fn settle(&mut self, parent: usize, node: usize, spent: Option<Usage>) {
        self.nodes[node].live = false;
        let reserved = self.nodes[node].reserved.take().unwrap();
        let settled = self.nodes[parent].account.settle(reserved, spent);
        self.nodes[parent].below = self.nodes[parent].below.plus(&settled.spent);
        self.notice(parent, settled.notice);
    }

    fn check(&self) {
        let granted = self.nodes.iter().fold(Usage::default(), |sum, node| sum.plus(&node.own));
        for axis in Axis::ALL {
            let Some(ceiling) = self.root.get(axis) else { continue };
            let root = &self.nodes[0].account;
            if !self.late {
                let taken = root.spent().get(axis) + root.reserved().get(axis);
                assert!(taken <= ceiling, "{axis:?}: {taken} of {ceiling} spent and set aside");
                assert!(granted.get(axis) <= ceiling, "{axis:?}: {} of {ceiling} granted", granted.get(axis));
            }
        }
        for (n, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.live) {
            let kept = self.children(n).into_iter().filter_map(|child| self.nodes[child].reserved.as_ref());
            let kept = kept.fold(Usage::default(), |sum, reserved| sum.plus(&reserved.held));
            assert_eq!(node.account.reserved(), kept, "what is set aside is set aside for a living child");
        }
        if !self.late {
            assert!(self.nodes.iter().filter(|node| node.live).all(|node| node.account.debt().is_zero()));
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Draw(usize, Usage),
    Start(usize, Option<Budget>, Budget),
    Charge(usize, Usage),
    Step(usize),
    End(usize),
    Crash(usize, bool),
    Quiesce,
}

fn any_usage() -> impl Strategy<Value = Usage> {
    (0..6_u64, 0..3_u64, 0..3_u64).prop_map(|(tokens, micro_usd, tool_calls)| Usage {
        tokens,
        micro_usd,
        tool_calls,
        delegations: 0,
    })
}

fn any_budget(most: u64) -> impl Strategy<Value = Budget> {
    let axis = move || prop_oneof![Just(None), (0..most).prop_map(Some)];
    (axis(), axis(), axis(), axis(), proptest::option::of(0..6_u32)).prop_map(
        |(tokens, micro_usd, tool_calls, delegations, depth)| Budget {
            tokens,
            micro_usd,
            tool_calls,
            delegations,
            depth,
            wall: None,
        },
    )
}

fn any_op() -> impl Strategy<Value = Op> {
    let node = 0..12_usize;
    prop_oneof![
        4 => (node.clone(), any_usage()).prop_map(|(node, usage)| Op::Draw(node, usage)),
        3 => (node.clone(), proptest::option::of(any_budget(12)), any_budget(20))
            .prop_map(|(node, slice, own)| Op::Start(node, slice, own)),
        1 => (node.clone(), any_usage()).prop_map(|(node, usage)| Op::Charge(node, usage)),
        6 => node.clone().prop_map(Op::Step),
        1 => node.clone().prop_map(Op::End),
        1 => (node, any::<bool>()).prop_map(|(node, known)| Op::Crash(node, known)),
        1 => Just(Op::Quiesce),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_of_accounts_keeps_every_ceiling_at_every_moment(
        root in any_budget(40),
        ops in proptest::collection::vec(any_op(), 0..120),
        late: bool,
    ) {
        let mut world = World::new(root, late);
        for op in ops {
            let pick = |n: usize| {
                let live: Vec<usize> = (0..world.nodes.len()).filter(|&n| world.nodes[n].live).collect();
                live[n % live.len()]
            };
            match op {
                Op::Draw(n, usage) => {
                    let node = pick(n);
                    world.ask(node, Ask { spend: usage, hold: Usage::default() }, Asker::Own);
                }
                Op::Start(n, slice, own) => {
                    let node = pick(n);
                    let child = world.nodes[node].account.child(slice.as_ref(), &own);
                    if let Ok(child) = child {
                        world.ask(node, child.ask, Asker::SetUp(Box::new(child)));
                    }
                }
                Op::Charge(n, usage) if late => {
                    let node = pick(n);
                    world.nodes[node].own = world.nodes[node].own.plus(&usage);
                    let notice = world.nodes[node].account.charge(usage);
                    world.notice(node, notice);
                }
                Op::Charge(..) => {}
                Op::Step(n) => {
                    let node = pick(n);
                    world.step(node);
                }
                Op::End(n) => {
                    let node = pick(n);
                    world.end(node);
                }
                Op::Quiesce => world.quiesce(),
                Op::Crash(n, known) => {
                    let node = pick(n);
                    world.crash(node, known);
                }
            }
            world.check();
        }
        world.drain();
        for child in world.children(0) {
            world.end(child);
        }
        world.drain();
        world.check();
        let root = &world.nodes[0];
        prop_assert!(root.account.is_idle(), "{:?}", root.account);
        prop_assert_eq!(root.account.spent(), root.own.plus(&root.below));
    }
}
