//! What the parts cost without treeward: actors of ractor, instances of wasmtime, processes of the kernel.

use std::process::{Command, Stdio};
use std::time::Instant;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use wasmtime::component::{Component, ComponentType, InstancePre, Linker, Lower, TypedFunc};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

use crate::report::Samples;

/// An actor that answers, and lets its children end.
pub struct Bare;

impl Actor for Bare {
    type Msg = RpcReplyPort<u64>;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        reply: Self::Msg,
        count: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        *count += 1;
        let _nobody = reply.send(*count);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        _: SupervisionEvent,
        _: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Starts one that lives until it is stopped.
pub async fn bare() -> ActorRef<RpcReplyPort<u64>> {
    Actor::spawn(None, Bare, ()).await.expect("an actor").0
}

async fn call(actor: &ActorRef<RpcReplyPort<u64>>) {
    let answer = actor.call(|reply| reply, None).await.expect("it lives");
    assert!(answer.is_success());
}

/// Calls to a bare actor, one after the other, from a task.
pub async fn actor_calls(times: usize) -> Samples {
    let calls = async move {
        let actor = bare().await;
        let mut samples = Samples::default();
        for _ in 0..times {
            let begin = Instant::now();
            call(&actor).await;
            samples.add(begin.elapsed());
        }
        actor.stop(None);
        samples
    };
    tokio::spawn(calls).await.expect("no panic")
}

/// A linked child spawned, stopped and joined, a task for what thinks in it, and the four messages a delegation is:
/// delegate, begin, report and wait. With `guest`, the task makes a fresh instance of it and calls it once.
pub async fn delegations(times: usize, guest: Option<BareGuest>) -> Samples {
    let all = async move {
        let parent = bare().await;
        let mut samples = Samples::default();
        for _ in 0..times {
            let begin = Instant::now();
            call(&parent).await;
            let (child, joined) = Actor::spawn_linked(None, Bare, (), parent.get_cell()).await.expect("an actor");
            call(&child).await;
            let guest = guest.clone();
            let think = async move {
                if let Some(guest) = guest {
                    guest.run().await;
                }
            };
            tokio::spawn(think).await.expect("no panic");
            call(&parent).await;
            call(&parent).await;
            child.stop(None);
            joined.await.expect("no panic");
            samples.add(begin.elapsed());
        }
        parent.stop(None);
        samples
    };
    tokio::spawn(all).await.expect("no panic")
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Task {
    text: String,
}

/// A component under wasmtime alone: a pool, fibers and epochs as treeward has them, no host behind its imports.
#[derive(Clone)]
pub struct BareGuest {
    engine: Engine,
    pre: InstancePre<()>,
}

impl BareGuest {
    pub fn new(component: &str) -> Self {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_component_instances(16)
            .total_core_instances(64)
            .total_memories(16)
            .total_tables(64)
            .total_stacks(16);
        let mut config = Config::new();
        config
            .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
            .epoch_interruption(true)
            .async_stack_size(2 << 20);
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::new(&engine, component).expect("it compiles");
        let mut linker = Linker::<()>::new(&engine);
        linker.define_unknown_imports_as_traps(&component).expect("imports that are never called");
        let pre = linker.instantiate_pre(&component).expect("it links");
        Self { engine, pre }
    }

    async fn run(&self) {
        let mut store = Store::new(&self.engine, ());
        store.set_epoch_deadline(1 << 40);
        let instance = self.pre.instantiate_async(&mut store).await.expect("it starts");
        let run: TypedFunc<(Task,), (Result<String, String>,)> =
            instance.get_typed_func(&mut store, "run").expect("it is an agent");
        let (answer,) = run.call_async(&mut store, (Task { text: "hi".into() },)).await.expect("it answers");
        assert_eq!(answer.as_deref(), Ok("hi"));
    }
}

/// `/bin/true` through posix_spawn, waited for: the kindest case of a process per child.
pub fn processes(times: usize) -> Samples {
    let mut samples = Samples::default();
    for _ in 0..times {
        let begin = Instant::now();
        let mut command = Command::new("/bin/true");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().expect("/bin/true runs").success());
        samples.add(begin.elapsed());
    }
    samples
}
