use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use proptest::prelude::*;

use super::*;

fn ask() -> impl Strategy<Value = Ask> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..12).prop_map(OsString::from_vec);
    let option = || any::<Option<u64>>();
    let limits = (option(), option(), option(), option()).prop_map(|(memory, processes, cpu_seconds, open_files)| {
        ProcessLimits { memory, processes, cpu_seconds, open_files }
    });
    let argv = prop::collection::vec(bytes(), 0..5);
    let env = prop::collection::vec((bytes(), bytes()), 0..5);
    let spawn = (any::<u64>(), argv, bytes(), env, limits).prop_map(|(run, argv, cwd, env, limits)| {
        Ask::Spawn(Box::new(Job { run, argv, cwd: cwd.into(), env, limits }))
    });
    prop_oneof![
        spawn,
        any::<u64>().prop_map(Ask::Bury),
        any::<u64>().prop_map(Ask::Ping),
        any::<()>().prop_map(|()| Ask::End)
    ]
}

fn say() -> impl Strategy<Value = Say> {
    let pid = || (any::<i32>(), any::<u64>()).prop_map(|(pid, start_ticks)| Pid { pid, start_ticks });
    let status = || {
        prop_oneof![
            any::<i32>().prop_map(ExitStatus::Code),
            any::<i32>().prop_map(ExitStatus::Signal),
            Just(ExitStatus::Lost),
        ]
    };
    let missing = prop::collection::vec("[a-zé ]{0,9}", 0..4);
    let ready = (0_usize..3, missing, any::<Option<String>>(), any::<bool>(), any::<bool>());
    prop_oneof![
        ready.prop_map(|(isolation, missing, group, limits_processes, limits_memory)| Say::Ready(Containment {
            isolation: ISOLATIONS[isolation],
            missing: missing.into(),
            control_group: group.map(Into::into),
            limits_processes,
            limits_memory,
        })),
        (any::<u64>(), pid(), pid()).prop_map(|(run, leader, keeper)| Say::Spawned { run, leader, keeper }),
        (any::<u64>(), 0_u8..6, any::<i32>()).prop_map(|(run, stage, errno)| Say::NotSpawned {
            run,
            stage: stage_from(stage).unwrap(),
            errno
        }),
        (any::<u64>(), status()).prop_map(|(run, status)| Say::Exited { run, status }),
        (any::<u64>(), any::<u32>()).prop_map(|(run, survivors)| Say::Buried { run, survivors }),
        any::<u64>().prop_map(Say::Pong),
    ]
}

fn links() -> (Link, Link) {
    let (one, other) =
        socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC)
            .unwrap();
    (Link::new(one), Link::new(other))
}

proptest! {
    #[test]
    fn what_is_asked_reads_back_and_no_part_of_it_does(ask in ask(), cut in any::<prop::sample::Index>()) {
        let frame = ask.encode();
        prop_assert_eq!(&Ask::decode(&frame).unwrap(), &ask);
        prop_assert!(Ask::decode(&frame[..cut.index(frame.len())]).is_err());
        prop_assert!(Ask::decode(&[&frame[..], &[0]].concat()).is_err());
    }

    #[test]
    fn what_is_said_reads_back_and_no_part_of_it_does(say in say(), cut in any::<prop::sample::Index>()) {
        let frame = say.encode();
        prop_assert_eq!(&Say::decode(&frame).unwrap(), &say);
        prop_assert!(Say::decode(&frame[..cut.index(frame.len())]).is_err());
        prop_assert!(Say::decode(&[&frame[..], &[0]].concat()).is_err());
    }

    #[test]
    fn no_bytes_at_all_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _whatever = (Ask::decode(&bytes), Say::decode(&bytes));
    }
}

#[test]
fn a_list_that_claims_four_thousand_million_items_is_cut_short_at_once() {
    let mut frame = vec![0; 1 + 8];
    frame.extend([0; 4]);
    frame.extend([0xff; 4]);
    assert_eq!(Ask::decode(&frame), Err(BadFrame("it is cut short")));
}

#[test]
fn a_frame_that_claims_too_much_is_refused_before_it_comes() {
    let (sender, mut receiver) = links();
    nix::unistd::write(&sender, &(MAX_FRAME as u32 + 1).to_le_bytes()).unwrap();
    assert_eq!(receiver.fill().unwrap(), Filled::Some);
    assert!(receiver.next().is_err());
}

#[test]
fn frames_larger_than_the_socket_arrive_whole_and_with_their_descriptors() {
    let (mut sender, mut receiver) = links();
    let null = || std::fs::File::open("/dev/null").unwrap().into();
    let payload: Vec<u8> = (0..MAX_FRAME).map(|index| index as u8).collect();
    sender.send(&payload, vec![null(), null(), null()]).unwrap();
    sender.send(b"and another", Vec::new()).unwrap();
    let mut frames = Vec::new();
    while frames.len() < 2 {
        sender.flush().unwrap();
        receiver.fill().unwrap();
        frames.extend(receiver.next().unwrap());
    }
    assert!(frames[0] == payload && frames[1] == b"and another");
    assert!(receiver.take_descriptors::<3>().is_some());
    assert!(receiver.take_descriptors::<1>().is_none());
    drop(sender);
    assert_eq!(receiver.fill().unwrap(), Filled::Closed);
}

#[test]
fn descriptors_nobody_asked_for_end_the_link() {
    let (mut sender, mut receiver) = links();
    let refused = (0..10).any(|_| {
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        sender.send(b"x", vec![null(), null(), null()]).unwrap();
        sender.flush().unwrap();
        receiver.fill().is_err()
    });
    assert!(refused);
}
