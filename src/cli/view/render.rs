//! The tree as text.

use treeward::ids::SessionPath;
use treeward::journal::CompletionStatus;

use super::fold::status_name;
use super::{Line, Node, State, Style, Tree, count, grouped, one_line};

/// How much room there is. Rows are kept by hiding sessions: first those that ended well, then those that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Columns; `None`: as many as it takes.
    pub width: Option<usize>,
    /// Rows; `None`: every session has its own.
    pub rows: Option<usize>,
    /// Whether what lies below a session that is over is folded into its line.
    pub fold_ended: bool,
}

/// Columns of a task where nothing limits the line.
const TASK: usize = 60;

/// Draws the tree, one line per row. Never more rows than there are, but at least the root's.
pub fn draw(tree: &Tree, space: Space) -> Vec<Line> {
    let all = Sessions::of(tree);
    let shown = all.choose(space);
    let mut lines = Vec::new();
    if !all.nodes.is_empty() {
        all.draw(0, "", "", &shown, space, &mut lines);
    }
    lines
}

/// The sessions as a tree of indices.
struct Sessions<'a> {
    nodes: Vec<(&'a SessionPath, &'a Node)>,
    children: Vec<Vec<usize>>,
    /// The most interesting state of each session and all below it.
    rank: Vec<Rank>,
}

/// What must be seen first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Live,
    EndedBadly,
    Waiting,
    EndedWell,
}

impl Rank {
    fn of(state: State) -> Self {
        match state {
            State::Running | State::Starting => Self::Live,
            State::Queued => Self::Waiting,
            State::Ended(CompletionStatus::Ok) => Self::EndedWell,
            State::Ended(_) => Self::EndedBadly,
        }
    }
}

impl<'a> Sessions<'a> {
    fn of(tree: &'a Tree) -> Self {
        let nodes: Vec<_> = tree.sessions.iter().collect();
        let mut children = vec![Vec::new(); nodes.len()];
        let mut rank: Vec<Rank> = nodes.iter().map(|(_, node)| Rank::of(node.state)).collect();
        // Paths are in order, so the way down to the last session is all that is needed to find a parent.
        let mut way: Vec<usize> = Vec::new();
        for (index, (path, _)) in nodes.iter().enumerate() {
            way.truncate(path.depth() as usize);
            if let Some(&parent) = way.last() {
                children[parent].push(index);
            }
            way.push(index);
        }
        for index in (0..nodes.len()).rev() {
            rank[index] = children[index].iter().map(|&child| rank[child]).fold(rank[index], Rank::min);
        }
        Self { nodes, children, rank }
    }

    /// Which sessions get a row of their own.
    fn choose(&self, space: Space) -> Vec<bool> {
        let Some(rows) = space.rows else {
            let mut shown = vec![true; self.nodes.len()];
            for index in 0..self.nodes.len() {
                if !shown[index] || self.is_folded(index, space) {
                    self.children[index].iter().for_each(|&child| shown[child] = false);
                }
            }
            return shown;
        };
        let mut shown = vec![false; self.nodes.len()];
        if shown.is_empty() {
            return shown;
        }
        let mut parent = vec![0; self.nodes.len()];
        for (index, children) in self.children.iter().enumerate() {
            children.iter().for_each(|&child| parent[child] = index);
        }
        // A session with children that are not shown has one more row that counts them.
        let mut hidden: Vec<usize> = self.children.iter().map(Vec::len).collect();
        let counts = |index: usize, hidden: &[usize]| usize::from(hidden[index] > 0 && !self.is_folded(index, space));
        let mut used = 1 + counts(0, &hidden);
        shown[0] = true;
        let mut order: Vec<usize> = (1..self.nodes.len()).collect();
        order.sort_by_key(|&index| (self.rank[index], self.nodes[index].0.depth()));
        for index in order {
            let above = parent[index];
            if !shown[above] || self.is_folded(above, space) {
                continue;
            }
            let last = usize::from(hidden[above] == 1);
            if used + 1 + counts(index, &hidden) - last <= rows {
                used = used + 1 + counts(index, &hidden) - last;
                hidden[above] -= 1;
                shown[index] = true;
            }
        }
        shown
    }

    /// Whether everything below it goes into its own line.
    fn is_folded(&self, index: usize, space: Space) -> bool {
        space.fold_ended && self.nodes[index].1.is_over()
    }

    fn draw(&self, index: usize, own: &str, below: &str, shown: &[bool], space: Space, lines: &mut Vec<Line>) {
        lines.push(self.line(index, own, space));
        let children: Vec<usize> = self.children[index].iter().copied().filter(|&child| shown[child]).collect();
        let hidden: Vec<usize> = self.children[index].iter().copied().filter(|&child| !shown[child]).collect();
        let more = !hidden.is_empty() && !self.is_folded(index, space);
        for (i, &child) in children.iter().enumerate() {
            let last = i + 1 == children.len() && !more;
            let (branch, rest) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.draw(child, &format!("{below}{branch}"), &format!("{below}{rest}"), shown, space, lines);
        }
        if more && space.rows.is_none_or(|rows| lines.len() < rows) {
            let line = Line::new().with(Style::Dim, &format!("{below}└─ "));
            lines.push(
                line.with(Style::Dim, &format!("{} more: {}", grouped(hidden.len() as u64), self.census(&hidden))),
            );
        }
    }

    /// How many of these sessions, and all below them, stand where.
    fn census(&self, tops: &[usize]) -> String {
        let mut counts = [0_u64; 8];
        let mut stack = tops.to_vec();
        while let Some(index) = stack.pop() {
            counts[place(self.nodes[index].1.state)] += 1;
            stack.extend(&self.children[index]);
        }
        let parts: Vec<String> = STATES
            .iter()
            .filter(|state| counts[place(**state)] > 0)
            .map(|state| format!("{} {}", grouped(counts[place(*state)]), state_name(*state)))
            .collect();
        parts.join(", ")
    }

    fn line(&self, index: usize, branch: &str, space: Space) -> Line {
        let (path, node) = self.nodes[index];
        let (style, sign) = look(node.state);
        let mut head = Line::new().with(Style::Dim, branch).with(style, sign).with(Style::Dim, &format!(" {path} "));
        head.push(Style::Strong, &node.capsule);
        let mut tail = Line::new().with(style, state_name(node.state));
        if node.attempts > 1 {
            tail.push(Style::Warn, &format!(" · attempt {}", node.attempts));
        }
        if let Some((n, last)) = &node.faults {
            let times = if *n > 1 { format!(", {n} in all") } else { String::new() };
            tail.push(Style::Warn, &format!(" · fault: {last}{times}"));
        }
        match (&node.detail, &node.doing) {
            (Some(detail), _) if node.is_over() => tail.push(Style::Plain, &format!(" · {detail}")),
            (_, Some(doing)) => tail.push(Style::Dim, &format!(" · {doing}")),
            (Some(detail), None) => tail.push(Style::Dim, &format!(" · last: {detail}")),
            (None, None) => {}
        }
        if self.is_folded(index, space) && !self.children[index].is_empty() {
            tail.push(Style::Dim, &format!(" · below: {}", self.census(&self.children[index])));
        }
        // The state must be seen: the task takes what is left beside it, up to a third of the line if that is little.
        let room = space.width.map_or(TASK, |width| {
            let left = width.saturating_sub(head.columns() + tail.columns() + 4);
            left.max(width.saturating_sub(head.columns()) / 3).min(TASK)
        });
        let task = one_line(&node.task, room);
        if !task.is_empty() {
            head.push(Style::Plain, "  ");
            head.push(Style::Plain, &task);
        }
        head.push(Style::Plain, "  ");
        head.append(tail)
    }
}

const STATES: [State; 8] = [
    State::Running,
    State::Starting,
    State::Queued,
    State::Ended(CompletionStatus::Ok),
    State::Ended(CompletionStatus::Error),
    State::Ended(CompletionStatus::Crashed),
    State::Ended(CompletionStatus::Terminated),
    State::Ended(CompletionStatus::Unknown),
];

fn place(state: State) -> usize {
    STATES.iter().position(|other| *other == state).unwrap_or_default()
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Starting => "starting",
        State::Queued => "queued",
        State::Running => "running",
        State::Ended(status) => status_name(status),
    }
}

fn look(state: State) -> (Style, &'static str) {
    match state {
        State::Starting | State::Queued => (Style::Dim, "·"),
        State::Running => (Style::Busy, "●"),
        State::Ended(CompletionStatus::Ok) => (Style::Good, "✓"),
        State::Ended(CompletionStatus::Terminated) => (Style::Warn, "■"),
        State::Ended(CompletionStatus::Unknown) => (Style::Bad, "?"),
        State::Ended(CompletionStatus::Error | CompletionStatus::Crashed) => (Style::Bad, "✗"),
    }
}

/// How many sessions there were and how they stand, in words.
pub fn census(tree: &Tree) -> String {
    let all = Sessions::of(tree);
    let total = count(all.nodes.len() as u64, "session", "sessions");
    let tops: Vec<usize> = if all.nodes.is_empty() { Vec::new() } else { vec![0] };
    if tops.is_empty() { total } else { format!("{total}: {}", all.census(&tops)) }
}

#[cfg(test)]
mod tests;
