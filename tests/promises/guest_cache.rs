//! Compiled components are kept, and what somebody else could have written is never run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use treeward::guest::{Allowed, CacheError, Exit, GuestConfig, Guests};
use treeward::limits::Limits;

use super::guest_support::{ECHO, FakeSession, Treatment, agent, nothing};

/// A process of its own, as far as guests are concerned, keeping compiled components at `cache`.
fn process(cache: &Path) -> Guests {
    let limits = Limits { live_sessions: 2, ..Limits::default() };
    Guests::new(GuestConfig { simulated: true, cache: Some(cache.to_owned()), limits }).unwrap()
}

/// Loads and runs the echo guest: however the cache fares, it must work.
async fn works(guests: &Guests) {
    let guest = guests.load_agent("echo.wat", Bytes::from(agent(ECHO)), Allowed::default()).await.unwrap();
    let exit = guest.run(FakeSession::new(Treatment::Answer).session(), "hi".into(), nothing(), None).await;
    assert_eq!(exit, Exit::Answered(Ok("hi".into())));
}

fn only_file(cache: &Path) -> PathBuf {
    let files: Vec<PathBuf> = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn what_is_kept_is_the_owners_alone_and_used_again() {
    let place = tempfile::tempdir().unwrap();
    let cache = place.path().join("deep/er");
    works(&process(&cache)).await;
    let file = only_file(&cache);
    assert_eq!((mode(&cache), mode(&file)), (0o700, 0o600));
    let kept = fs::metadata(&file).unwrap().modified().unwrap();
    works(&process(&cache)).await;
    assert_eq!(only_file(&cache), file);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), kept, "it was not compiled again");
}

#[tokio::test]
async fn a_file_that_is_not_whole_is_compiled_again() {
    let place = tempfile::tempdir().unwrap();
    works(&process(place.path())).await;
    let file = only_file(place.path());
    let whole = fs::read(&file).unwrap();
    let mut bent = whole.clone();
    bent[whole.len() / 2] ^= 1;
    for damaged in [&b""[..], b"short", &whole[..whole.len() / 2], &whole[..whole.len() - 1], &bent] {
        fs::write(&file, damaged).unwrap();
        works(&process(place.path())).await;
        assert_eq!(fs::read(&file).unwrap().len(), whole.len());
        assert_ne!(fs::read(&file).unwrap(), damaged);
    }
}

#[tokio::test]
async fn a_file_others_could_write_is_not_used() {
    let place = tempfile::tempdir().unwrap();
    works(&process(place.path())).await;
    let file = only_file(place.path());
    for bits in [0o620, 0o602] {
        fs::set_permissions(&file, fs::Permissions::from_mode(bits)).unwrap();
        works(&process(place.path())).await;
        assert_eq!(mode(&file), 0o600, "it was replaced by one of our own");
    }
    // A link, even to a good file, is not ours.
    let elsewhere = place.path().with_extension("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    works(&process(place.path())).await;
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
    fs::remove_file(&elsewhere).unwrap();
    // Nor is a FIFO, and it holds nobody up.
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    works(&process(place.path())).await;
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
}

#[tokio::test]
async fn a_directory_others_could_write_is_not_used_and_said_so() {
    for bits in [0o770, 0o702, 0o777] {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(bits)).unwrap();
        let guests = process(place.path());
        let problem = guests.cache_problem().unwrap();
        assert!(matches!(problem, CacheError::Unsafe { .. }));
        assert!(problem.to_string().contains(place.path().to_str().unwrap()), "{problem}");
        works(&guests).await;
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn a_link_or_a_file_in_its_place_is_not_used() {
    let place = tempfile::tempdir().unwrap();
    let (real, link, file) = (place.path().join("real"), place.path().join("link"), place.path().join("file"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    fs::write(&file, "x").unwrap();
    for cache in [&link, &file] {
        let guests = process(cache);
        assert!(guests.cache_problem().is_some());
        works(&guests).await;
    }
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
}

#[tokio::test]
async fn what_somebody_else_keeps_there_stays() {
    let place = tempfile::tempdir().unwrap();
    for n in 0..300 {
        fs::write(place.path().join(format!("{n:064}-0.compiled")), "old").unwrap();
        fs::write(place.path().join(format!("note {n}")), "mine").unwrap();
    }
    works(&process(place.path())).await;
    let names: Vec<String> =
        fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("note")).count(), 300);
    assert_eq!(names.iter().filter(|name| name.ends_with(".compiled")).count(), 256);
}
