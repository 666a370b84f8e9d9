//! What stands beside one guest: its limits, its capabilities, and the linkers that lend them.

use std::sync::Arc;

use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime::{Engine, ResourceLimiter};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::bindings;
use super::files::{Files, Listed};
use super::http::Outgoing;
use super::session_host::Lent;
use crate::lending::Directory;

/// Entries of a guest's table of files, streams and timers. Each may be a descriptor of the process.
const HANDLES: usize = 1024;

/// The data of one guest's store.
pub(super) struct Guest {
    pub(super) wasi: WasiCtx,
    pub(super) table: ResourceTable,
    pub(super) directories: Arc<[Directory]>,
    pub(super) listed: Listed,
    pub(super) inline: bool,
    pub(super) http: WasiHttpCtx,
    pub(super) outgoing: Outgoing,
    pub(super) lent: Lent,
    pub(super) limiter: Limiter,
}

impl Guest {
    pub(super) fn table() -> ResourceTable {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        table
    }

    fn files(&mut self) -> Files<'_> {
        Files {
            inner: WasiFilesystemCtxView { ctx: self.wasi.filesystem(), table: &mut self.table },
            directories: &self.directories,
            listed: &mut self.listed,
            inline: self.inline,
        }
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.outgoing, table: &mut self.table, ctx: &mut self.http }
    }
}

struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

struct HasSession;

impl HasData for HasSession {
    type Data<'a> = &'a mut Lent;
}

/// What components of the agent world and of the tool world may import.
///
/// `wasi:sockets` is there and answers every call with a refusal: toolchains import it unasked.
pub(super) fn linkers(engine: &Engine) -> wasmtime::Result<(Linker<Guest>, Linker<Guest>)> {
    use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};

    let mut tools = Linker::<Guest>::new(engine);
    tools.allow_shadowing(true);
    wasmtime_wasi::p2::add_to_linker_async(&mut tools)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut tools)?;
    types::add_to_linker::<Guest, HasFiles>(&mut tools, Guest::files)?;
    preopens::add_to_linker::<Guest, HasFiles>(&mut tools, Guest::files)?;
    tools.allow_shadowing(false);
    let mut agents = tools.clone();
    bindings::treeward::agent::session::add_to_linker::<Guest, HasSession>(&mut agents, |guest| &mut guest.lent)?;
    Ok((agents, tools))
}

/// Holds a guest to its memory, over all its memories together.
pub(super) struct Limiter {
    most: usize,
    used: usize,
    denied: bool,
}

impl Limiter {
    pub(super) fn new(most: u64) -> Self {
        Self { most: usize::try_from(most).unwrap_or(usize::MAX), used: 0, denied: false }
    }

    /// Bytes it may have.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Whether the guest was refused memory it asked for.
    pub(super) fn denied(&self) -> bool {
        self.denied
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.used.saturating_add(desired.saturating_sub(current));
        if wanted > self.most || maximum.is_some_and(|maximum| desired > maximum) {
            self.denied |= wanted > self.most;
            return Ok(false);
        }
        self.used = wanted;
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // The pool has laid its tables out already; what it says is the most there can be.
        Ok(maximum.is_none_or(|maximum| desired <= maximum))
    }
}
