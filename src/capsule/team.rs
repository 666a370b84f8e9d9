//! A capsule together with every capsule that can come to stand below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::grants::Wider;
use super::value::Capsule;

/// How many capsules a team may have.
pub const MOST_CAPSULES: usize = 256;

/// A root capsule and all it can delegate to, directly or further down: closed, and nobody's grants wider than those of
/// whoever delegates to it. Immutable; cheap to clone.
#[derive(Clone, Debug)]
pub struct Team {
    root: Arc<Capsule>,
    members: Arc<BTreeMap<String, Arc<Capsule>>>,
}

/// Capsules that make no team.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    /// Two capsules of one name.
    #[error("two capsules are called `{0}`; give one of them another name")]
    Twice(String),
    /// More than a team may have.
    #[error("more than {MOST_CAPSULES} capsules")]
    TooMany,
    /// Somebody delegates to a capsule that is not there.
    #[error("grants.delegate of `{capsule}`: there is no capsule `{delegate}`; add it to the team")]
    NoDelegate {
        /// Who would delegate.
        capsule: String,
        /// To whom.
        delegate: String,
    },
    /// A member is granted what its delegator does not hold.
    #[error("{} of `{capsule}`: {wider}; grant it to `{}` too, or take it from `{capsule}`", .wider.key, .wider.parent)]
    Wider {
        /// The member.
        capsule: String,
        /// What is wider, and than whose.
        wider: Wider,
    },
}

impl Team {
    /// A team of `root` and `members`; naming the root among them is no error.
    pub fn new(root: Arc<Capsule>, members: impl IntoIterator<Item = Arc<Capsule>>) -> Result<Self, TeamError> {
        let mut by_name = BTreeMap::from([(root.name().to_owned(), root.clone())]);
        for member in members {
            if let Some(other) = by_name.get(member.name()) {
                if Arc::ptr_eq(other, &member) {
                    continue;
                }
                return Err(TeamError::Twice(member.name().to_owned()));
            }
            by_name.insert(member.name().to_owned(), member);
            if by_name.len() > MOST_CAPSULES {
                return Err(TeamError::TooMany);
            }
        }
        for capsule in by_name.values() {
            for delegate in &capsule.grants().delegate {
                let Some(child) = by_name.get(delegate) else {
                    let (capsule, delegate) = (capsule.name().to_owned(), delegate.clone());
                    return Err(TeamError::NoDelegate { capsule, delegate });
                };
                child.grants().within(capsule.grants()).map_err(|wider| TeamError::Wider {
                    capsule: delegate.clone(),
                    wider: Wider { parent: capsule.name().to_owned(), ..wider },
                })?;
            }
        }
        Ok(Self { root, members: Arc::new(by_name) })
    }

    /// The capsule a tree begins with.
    pub fn root(&self) -> &Arc<Capsule> {
        &self.root
    }

    /// A member by its name, the root included.
    pub fn get(&self, name: &str) -> Option<&Arc<Capsule>> {
        self.members.get(name)
    }

    /// Every member by its name, the root included.
    pub fn members(&self) -> &BTreeMap<String, Arc<Capsule>> {
        &self.members
    }
}

impl TryFrom<Arc<Capsule>> for Team {
    type Error = TeamError;

    /// A team of one, which delegates to nobody but itself.
    fn try_from(root: Arc<Capsule>) -> Result<Self, TeamError> {
        Self::new(root, [])
    }
}

#[cfg(test)]
mod tests {
    use super::super::Builder;
    use super::*;

    fn native(name: &str) -> Builder {
        Capsule::native(name, |_session, task| async move { Ok(task.text) })
    }

    #[test]
    fn a_team_is_closed_and_may_go_in_circles() {
        let lead = native("lead").delegates(["lead", "leaf"]).build().unwrap();
        let leaf = native("leaf").delegates(["leaf", "lead"]).build().unwrap();
        let team = Team::new(lead.clone(), [leaf, lead.clone()]).unwrap();
        assert_eq!(team.members().keys().collect::<Vec<_>>(), ["lead", "leaf"]);
        assert_eq!(team.get("lead").unwrap().digest(), team.root().digest());
        assert_eq!(
            Team::try_from(lead).unwrap_err(),
            TeamError::NoDelegate { capsule: "lead".into(), delegate: "leaf".into() }
        );
    }

    #[test]
    fn two_of_one_name_are_refused() {
        let leaf = || native("leaf").build().unwrap();
        assert_eq!(Team::new(leaf(), [leaf()]).unwrap_err(), TeamError::Twice("leaf".into()));
    }

    #[test]
    fn a_member_wider_than_its_delegator_is_refused_by_key_at_any_depth() {
        let lead = native("lead").delegates(["mid", "leaf"]).env(["LANG"]).build().unwrap();
        let mid = native("mid").delegates(["leaf"]).build().unwrap();
        let leaf = native("leaf").env(["LANG"]).build().unwrap();
        let refused = Team::new(lead, [mid, leaf]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "grants.env of `leaf`: `LANG` is wider than what its delegator `mid` holds; grant it to `mid` too, or take it from `leaf`"
        );
    }

    #[test]
    fn a_team_is_bounded() {
        let members = (0..MOST_CAPSULES).map(|n| native(&format!("a{n}")).build().unwrap());
        assert_eq!(Team::new(native("lead").build().unwrap(), members).unwrap_err(), TeamError::TooMany);
    }
}
