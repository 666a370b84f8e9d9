//! Lending: a child gets exactly the directories its manifest declares, each out of one its delegator holds.

use std::collections::BTreeSet;

use super::grants::Grants;
use super::name::{check_name, shown};
use crate::agent::{Lend, Refusal};
use crate::journal::LentDirectory;

/// How long the relative path of a lent directory may be, in bytes.
const LONGEST_PATH: usize = 4096;

fn refuse(key: &str, reason: String) -> Refusal {
    Refusal { key: key.to_owned(), reason }
}

/// Whether the lender may lend what is asked, and the child takes it: the directory as the child will know it.
///
/// Only names are judged here; that the path leads through no link out of the directory is seen to when it is opened.
pub fn check_lend(lender: &[LentDirectory], request: &Lend, child: &Grants) -> Result<LentDirectory, Refusal> {
    let Lend { directory, path, name, write } = request;
    let key = if *write { "grants.write" } else { "grants.read" };
    check_name(name).map_err(|bad| refuse(key, bad.to_string()))?;
    let Some(held) = lender.iter().find(|held| held.name == *directory) else {
        let holds = listed(lender.iter().map(|held| held.name.as_str()));
        return Err(refuse(
            key,
            format!("cannot lend `{}`: the delegator holds no such directory, only {holds}", shown(directory)),
        ));
    };
    if *write && !held.write {
        return Err(refuse(
            "grants.write",
            format!("cannot lend `{directory}` for writing: the delegator holds it read-only; lend it read-only"),
        ));
    }
    match (child.write.contains(name), child.read.contains(name), write) {
        (true, _, true) | (false, true, false) => {}
        (true, _, false) => {
            return Err(refuse("grants.write", format!("the capsule writes to `{name}`; lend it for writing")));
        }
        (false, true, true) => {
            return Err(refuse("grants.read", format!("the capsule only reads `{name}`; lend it read-only")));
        }
        (false, false, _) => return Err(undeclared(name, *write, child)),
    }
    let below = relative(path).map_err(|why| refuse(key, format!("cannot lend `{}`: {why}", shown(path))))?;
    let from = if below.is_empty() { directory.clone() } else { format!("{directory}/{below}") };
    Ok(LentDirectory { name: name.clone(), from: Some(from), write: *write })
}

/// Whether all that is asked may be lent, and it is exactly what the child declares. In order of the child's names.
pub fn check_lends(lender: &[LentDirectory], requests: &[Lend], child: &Grants) -> Result<Vec<LentDirectory>, Refusal> {
    let mut lent: Vec<LentDirectory> = Vec::new();
    for request in requests {
        let directory = check_lend(lender, request, child)?;
        // Held to what the child declares, so at most that many are kept whatever the request's length.
        if lent.iter().any(|other| other.name == directory.name) {
            return Err(refuse(declared_key(&directory), format!("`{}` is lent twice; lend it once", directory.name)));
        }
        lent.push(directory);
    }
    lent.sort_by(|a, b| a.name.cmp(&b.name));
    check_declared(&lent, child)?;
    Ok(lent)
}

/// Whether exactly the directories a capsule declares are lent: a missing one and an undeclared one are both refused.
pub fn check_declared(lent: &[LentDirectory], child: &Grants) -> Result<(), Refusal> {
    for directory in lent {
        let name = &directory.name;
        let declared = if directory.write { child.write.contains(name) } else { child.read.contains(name) };
        if !declared {
            return Err(undeclared(name, directory.write, child));
        }
    }
    let names: BTreeSet<&String> = lent.iter().map(|directory| &directory.name).collect();
    for (key, declared, how) in [("grants.read", &child.read, "reading"), ("grants.write", &child.write, "writing")] {
        if let Some(name) = declared.iter().find(|name| !names.contains(name)) {
            return Err(refuse(
                key,
                format!("the capsule needs a directory `{name}`: lend one for {how}, or take it out of its {key}"),
            ));
        }
    }
    Ok(())
}

fn declared_key(directory: &LentDirectory) -> &'static str {
    if directory.write { "grants.write" } else { "grants.read" }
}

fn undeclared(name: &str, write: bool, child: &Grants) -> Refusal {
    let key = if write { "grants.write" } else { "grants.read" };
    let declares = listed(child.read.iter().chain(&child.write).map(String::as_str));
    refuse(
        key,
        format!("the capsule declares no `{name}` there, only {declares}; add it to its {key} or do not lend it"),
    )
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A path in its one spelling, or why it is none that may be lent.
fn relative(path: &str) -> Result<String, &'static str> {
    if path.len() > LONGEST_PATH {
        return Err("the path is longer than 4096 bytes");
    }
    if path.contains('\0') {
        return Err("a path has no NUL");
    }
    if path.starts_with('/') {
        return Err("give the path relative to the directory");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err("the path may not contain `..`");
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lender() -> Vec<LentDirectory> {
        let held = |name: &str, write| LentDirectory { name: name.to_owned(), from: None, write };
        vec![held("input", false), held("work", true)]
    }

    fn child(read: &[&str], write: &[&str]) -> Grants {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Grants { read: set(read), write: set(write), ..Grants::default() }
    }

    fn lend(directory: &str, path: &str, name: &str, write: bool) -> Lend {
        Lend { directory: directory.to_owned(), path: path.to_owned(), name: name.to_owned(), write }
    }

    #[test]
    fn a_lent_directory_is_known_by_the_childs_name_and_where_it_came_from() {
        let lent = check_lend(&lender(), &lend("input", "src//./lib/", "docs", false), &child(&["docs"], &[])).unwrap();
        assert_eq!(lent, LentDirectory { name: "docs".into(), from: Some("input/src/lib".into()), write: false });
        let lent = check_lend(&lender(), &lend("work", "", "out", true), &child(&[], &["out"])).unwrap();
        assert_eq!(lent.from.as_deref(), Some("work"));
    }

    #[test]
    fn what_is_written_may_be_lent_to_be_read_and_never_the_other_way() {
        assert!(check_lend(&lender(), &lend("work", "", "docs", false), &child(&["docs"], &[])).is_ok());
        let refusal = check_lend(&lender(), &lend("input", "", "out", true), &child(&[], &["out"])).unwrap_err();
        assert_eq!(refusal.key, "grants.write");
        assert!(refusal.reason.contains("read-only"), "{refusal}");
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in ["/", "/etc", "..", "a/../..", "a/..", "a/../b", "../input", "a\0b", &"a/".repeat(3000)] {
            let refused = check_lend(&lender(), &lend("input", path, "docs", false), &child(&["docs"], &[]));
            assert_eq!(refused.unwrap_err().key, "grants.read", "{path}");
        }
        // Two dots inside a name are a name.
        assert!(check_lend(&lender(), &lend("input", "a..b/...", "docs", false), &child(&["docs"], &[])).is_ok());
    }

    #[test]
    fn exactly_what_is_declared_is_lent() {
        let takes = child(&["docs"], &["out"]);
        let docs = lend("input", "", "docs", false);
        let out = lend("work", "", "out", true);
        let lent = check_lends(&lender(), &[out.clone(), docs.clone()], &takes).unwrap();
        assert_eq!(lent.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["docs", "out"]);

        let keys = |requests: &[Lend]| check_lends(&lender(), requests, &takes).unwrap_err().key;
        assert_eq!(keys(std::slice::from_ref(&docs)), "grants.write");
        assert_eq!(keys(std::slice::from_ref(&out)), "grants.read");
        assert_eq!(keys(&[docs.clone(), out.clone(), lend("input", "", "more", false)]), "grants.read");
        assert_eq!(keys(&[docs.clone(), docs.clone(), out.clone()]), "grants.read");
        assert_eq!(keys(&[docs.clone(), lend("work", "", "out", false)]), "grants.write");
        assert_eq!(keys(&[lend("work", "", "docs", true), out]), "grants.read");
        assert_eq!(keys(&[lend("nowhere", "", "docs", false)]), "grants.read");
        assert!(check_lends(&lender(), &[], &Grants::default()).is_ok());
    }

    #[test]
    fn a_root_session_is_held_to_its_manifest_too() {
        assert!(check_declared(&lender(), &child(&["input"], &["work"])).is_ok());
        assert_eq!(check_declared(&lender(), &child(&["input"], &[])).unwrap_err().key, "grants.write");
        let missing = check_declared(&[], &child(&["input"], &[])).unwrap_err();
        assert!(missing.reason.contains("`input`"), "{missing}");
    }

    proptest! {
        #[test]
        fn no_path_leaves_its_directory(path in "[./a]{0,12}|\\PC{0,12}") {
            if let Ok(lent) = check_lend(&lender(), &lend("input", &path, "docs", false), &child(&["docs"], &[])) {
                let from = lent.from.unwrap();
                prop_assert!(from == "input" || from.starts_with("input/"));
                prop_assert!(from.split('/').all(|part| !matches!(part, "" | "." | "..")));
            }
        }

        #[test]
        fn write_never_comes_from_read(directory in "input|work|x", name in "docs|out|x", write: bool) {
            let lent = check_lend(&lender(), &lend(&directory, "", &name, write), &child(&["docs"], &["out"]));
            if let Ok(lent) = lent {
                prop_assert!(!lent.write || directory == "work");
                prop_assert_eq!(lent.write, name == "out");
            }
        }
    }
}
