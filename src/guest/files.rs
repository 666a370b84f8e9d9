//! The files a guest sees: exactly the directories it was lent, of them only files and directories.
//!
//! Most of `wasi:filesystem` is wasmtime's own. Three functions are ours: which directories there are; opening, which
//! must not hang on a FIFO nor wake a device; and reading a directory, which gives every good name in order and only
//! then says that there were others.

use std::io;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{self, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Descriptor, DescriptorFlags, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode, HostDescriptor,
    HostDirectoryEntryStream, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};
use wasmtime_wasi::{FsPerms, OpenMode};

use crate::lending::Directory;

/// Directory entries a guest's open listings may hold together.
const LISTED: usize = 1 << 18;

/// How many entries the open listings of a guest hold.
#[derive(Default)]
pub(super) struct Listed(usize);

/// The file system of one guest, for the length of one call.
pub(super) struct Files<'a> {
    pub(super) inner: WasiFilesystemCtxView<'a>,
    pub(super) directories: &'a [Directory],
    pub(super) listed: &'a mut Listed,
    /// Whether to block in place: so a simulation has one thread.
    pub(super) inline: bool,
}

/// An open listing. Stands in the table under the number of the interface's stream.
struct Listing {
    rest: std::vec::IntoIter<FsResult<DirectoryEntry>>,
    held: usize,
}

/// Runs what may block on a disk where that is allowed.
async fn blocking<R: Send + 'static>(inline: bool, body: impl FnOnce() -> R + Send + 'static) -> FsResult<R> {
    if inline {
        return Ok(body());
    }
    // Given up together with its guest it ends by itself: nothing it does waits for anybody.
    tokio::task::spawn_blocking(body).await.map_err(FsError::trap)
}

impl Files<'_> {
    fn dir(&self, fd: &Resource<Descriptor>) -> FsResult<filesystem::Dir> {
        match self.inner.table.get(fd)? {
            Descriptor::Dir(dir) => Ok(dir.clone()),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    fn lend(&mut self, directory: &Directory) -> wasmtime::Result<Resource<Descriptor>> {
        let (perms, mode) = if directory.may_write() {
            (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE)
        } else {
            (FsPerms::ReadOnly, OpenMode::READ)
        };
        let dir = directory.dir().try_clone()?.into_std_file();
        Ok(self.inner.table.push(Descriptor::Dir(filesystem::Dir::new(dir, perms, mode, self.inline)))?)
    }
}

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let directories = self.directories;
        directories.iter().map(|directory| Ok((self.lend(directory)?, directory.name().to_owned()))).collect()
    }
}

/// What is to be opened, all of it already allowed.
struct Opening {
    path: String,
    follow: bool,
    create: bool,
    exclusive: bool,
    truncate: bool,
    directory: bool,
    read: bool,
    write: bool,
}

impl Opening {
    fn new(path: String, follow: PathFlags, how: OpenFlags, flags: DescriptorFlags) -> FsResult<Self> {
        let sync = DescriptorFlags::FILE_INTEGRITY_SYNC
            | DescriptorFlags::DATA_INTEGRITY_SYNC
            | DescriptorFlags::REQUESTED_WRITE_SYNC;
        if flags.intersects(sync) {
            return Err(ErrorCode::Unsupported.into());
        }
        let (create, truncate) = (how.contains(OpenFlags::CREATE), how.contains(OpenFlags::TRUNCATE));
        let (exclusive, directory) = (how.contains(OpenFlags::EXCLUSIVE), how.contains(OpenFlags::DIRECTORY));
        if directory && (create || exclusive || truncate) {
            return Err(ErrorCode::Invalid.into());
        }
        Ok(Self {
            path,
            follow: follow.contains(PathFlags::SYMLINK_FOLLOW),
            create,
            exclusive,
            truncate,
            directory,
            // Something must be asked of the system; what the guest may then do with it is its descriptor's mode.
            read: flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE),
            write: flags.contains(DescriptorFlags::WRITE) || create || truncate,
        })
    }

    fn mode(&self) -> OpenMode {
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, self.read);
        mode.set(OpenMode::WRITE, self.write);
        mode
    }

    fn open(&self, dir: &std::fs::File) -> io::Result<std::fs::File> {
        let dir = Dir::from_std_file(dir.try_clone()?);
        let found = if self.follow { dir.metadata(&self.path) } else { dir.symlink_metadata(&self.path) };
        match found {
            Ok(meta) if meta.is_symlink() => return Err(Errno::ELOOP.into()),
            // Even opening and closing a FIFO or a device can be felt at its other end.
            Ok(meta) if !meta.is_file() && !meta.is_dir() => return Err(Errno::EOPNOTSUPP.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.create => {}
            Err(error) => return Err(error),
        }
        let mut options = OpenOptions::new();
        options.read(self.read).write(self.write).truncate(self.truncate);
        if self.create && self.exclusive {
            options.create_new(true);
        } else {
            options.create(self.create);
        }
        // It may have been replaced by a FIFO since: not even then may this wait.
        options.custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
        let file = dir.open_with(&self.path, &options)?.into_std();
        let meta = file.metadata()?;
        if self.directory && !meta.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        if meta.is_file() || meta.is_dir() { Ok(file) } else { Err(Errno::EOPNOTSUPP.into()) }
    }
}

/// Every entry of a directory: those whose names are text first, in order; then one error for all that are not.
fn entries(dir: &std::fs::File, most: usize) -> io::Result<Vec<FsResult<DirectoryEntry>>> {
    let mut good = Vec::new();
    let mut other = false;
    for entry in Dir::from_std_file(dir.try_clone()?).entries()? {
        let entry = entry?;
        if good.len() >= most {
            return Err(Errno::ENOMEM.into());
        }
        let type_ = entry.file_type().map_or(DescriptorType::Unknown, |kind| {
            if kind.is_dir() {
                DescriptorType::Directory
            } else if kind.is_file() {
                DescriptorType::RegularFile
            } else if kind.is_symlink() {
                DescriptorType::SymbolicLink
            } else {
                DescriptorType::Unknown
            }
        });
        match entry.file_name().into_string() {
            Ok(name) => good.push(DirectoryEntry { type_, name }),
            Err(_) => other = true,
        }
    }
    good.sort_by(|a, b| a.name.cmp(&b.name));
    let unreadable = other.then(|| Err(ErrorCode::IllegalByteSequence.into()));
    Ok(good.into_iter().map(Ok).chain(unreadable).collect())
}

impl types::Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.inner.convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        self.inner.filesystem_error_code(error)
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing: &mut Listing = self.inner.table.get_mut(&Resource::new_borrow(stream.rep()))?;
        listing.rest.next().transpose()
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let listing: Listing = self.inner.table.delete(Resource::new_own(stream.rep()))?;
        self.listed.0 = self.listed.0.saturating_sub(listing.held);
        Ok(())
    }
}

impl HostDescriptor for Files<'_> {
    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        follow: PathFlags,
        path: String,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let dir = self.dir(&fd)?;
        let opening = Opening::new(path, follow, how, flags)?;
        let (perms, mode) = (dir.perms, opening.mode());
        if perms.write_not_permitted() && opening.write {
            return Err(ErrorCode::NotPermitted.into());
        }
        let file = blocking(self.inline, move || opening.open(&dir.dir)).await??;
        let opened = if file.metadata()?.is_dir() {
            Descriptor::Dir(filesystem::Dir::new(file, perms, mode, self.inline))
        } else {
            Descriptor::File(filesystem::File::new(file, perms, mode, self.inline))
        };
        // A guest that holds all it may can close something; it need not die of it.
        self.inner.table.push(opened).map_err(|_| ErrorCode::InsufficientMemory.into())
    }

    async fn read_directory(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DirectoryEntryStream>> {
        let dir = self.dir(&fd)?;
        let most = LISTED.saturating_sub(self.listed.0);
        let entries = blocking(self.inline, move || entries(&dir.dir, most)).await??;
        let held = entries.len();
        let listing = self.inner.table.push(Listing { rest: entries.into_iter(), held });
        let listing = listing.map_err(|_| FsError::from(ErrorCode::InsufficientMemory))?;
        self.listed.0 += held;
        Ok(Resource::new_own(listing.rep()))
    }

    async fn advise(&mut self, fd: Resource<Descriptor>, offset: u64, len: u64, advice: types::Advice) -> FsResult<()> {
        self.inner.advise(fd, offset, len, advice).await
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.inner.sync_data(fd).await
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        self.inner.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorType> {
        self.inner.get_type(fd).await
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: u64) -> FsResult<()> {
        self.inner.set_size(fd, size).await
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        self.inner.set_times(fd, accessed, modified).await
    }

    async fn read(&mut self, fd: Resource<Descriptor>, len: u64, offset: u64) -> FsResult<(Vec<u8>, bool)> {
        self.inner.read(fd, len, offset).await
    }

    async fn write(&mut self, fd: Resource<Descriptor>, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        self.inner.write(fd, bytes, offset).await
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.inner.sync(fd).await
    }

    async fn create_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.inner.create_directory_at(fd, path).await
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<types::DescriptorStat> {
        self.inner.stat(fd).await
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        follow: PathFlags,
        path: String,
    ) -> FsResult<types::DescriptorStat> {
        self.inner.stat_at(fd, follow, path).await
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        follow: PathFlags,
        path: String,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        self.inner.set_times_at(fd, follow, path, accessed, modified).await
    }

    async fn link_at(
        &mut self,
        fd: Resource<Descriptor>,
        follow: PathFlags,
        old: String,
        to: Resource<Descriptor>,
        new: String,
    ) -> FsResult<()> {
        self.inner.link_at(fd, follow, old, to, new).await
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.inner, fd)
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        self.inner.readlink_at(fd, path).await
    }

    async fn remove_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.inner.remove_directory_at(fd, path).await
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        old: String,
        to: Resource<Descriptor>,
        new: String,
    ) -> FsResult<()> {
        self.inner.rename_at(fd, old, to, new).await
    }

    async fn symlink_at(&mut self, fd: Resource<Descriptor>, target: String, path: String) -> FsResult<()> {
        self.inner.symlink_at(fd, target, path).await
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.inner.unlink_file_at(fd, path).await
    }

    fn read_via_stream(&mut self, fd: Resource<Descriptor>, offset: u64) -> FsResult<Resource<DynInputStream>> {
        self.inner.read_via_stream(fd, offset)
    }

    fn write_via_stream(&mut self, fd: Resource<Descriptor>, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        self.inner.write_via_stream(fd, offset)
    }

    fn append_via_stream(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        self.inner.append_via_stream(fd)
    }

    async fn is_same_object(&mut self, a: Resource<Descriptor>, b: Resource<Descriptor>) -> wasmtime::Result<bool> {
        self.inner.is_same_object(a, b).await
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<types::MetadataHashValue> {
        self.inner.metadata_hash(fd).await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        follow: PathFlags,
        path: String,
    ) -> FsResult<types::MetadataHashValue> {
        self.inner.metadata_hash_at(fd, follow, path).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Opens as a guest whose flags ask to follow links.
    fn open(root: &std::path::Path, path: &str, how: OpenFlags, flags: DescriptorFlags) -> io::Result<std::fs::File> {
        let opening =
            Opening::new(path.to_owned(), PathFlags::SYMLINK_FOLLOW, how, flags).map_err(|_| Errno::EINVAL)?;
        opening.open(&std::fs::File::open(root)?)
    }

    fn place() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("plain"), "x").unwrap();
        nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (target, link) in
            [("fifo", "to-fifo"), ("plain", "inside"), ("a", "b"), ("b", "a"), ("..", "up"), ("/etc", "etc")]
        {
            symlink(target, root.join(link)).unwrap();
        }
        place
    }

    #[test]
    fn links_are_followed_while_they_stay_inside() {
        let place = place();
        let root = place.path().join("root");
        let read = |path| open(&root, path, OpenFlags::empty(), DescriptorFlags::READ);
        assert!(read("inside").unwrap().metadata().unwrap().is_file());
        for path in ["a", "up", "etc", "etc/passwd", "../root/plain", "/etc/passwd"] {
            assert!(read(path).is_err(), "{path}");
        }
        let opening =
            Opening::new("inside".into(), PathFlags::empty(), OpenFlags::empty(), DescriptorFlags::READ).unwrap();
        let error = opening.open(&std::fs::File::open(&root).unwrap()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ELOOP as i32));
    }

    #[test]
    fn a_fifo_is_refused_at_once_for_reading_and_writing() {
        let place = place();
        let root = place.path().join("root");
        for flags in [DescriptorFlags::READ, DescriptorFlags::WRITE, DescriptorFlags::READ | DescriptorFlags::WRITE] {
            for how in [OpenFlags::empty(), OpenFlags::CREATE, OpenFlags::TRUNCATE] {
                for path in ["fifo", "to-fifo"] {
                    let error = open(&root, path, how, flags).unwrap_err();
                    assert_eq!(error.raw_os_error(), Some(Errno::EOPNOTSUPP as i32), "{path} {how:?} {flags:?}");
                }
            }
        }
    }

    #[test]
    fn flags_that_contradict_each_other_or_are_not_kept_are_refused() {
        let new = |how, flags| Opening::new("x".into(), PathFlags::empty(), how, flags).is_ok();
        assert!(!new(OpenFlags::DIRECTORY | OpenFlags::CREATE, DescriptorFlags::READ));
        assert!(!new(OpenFlags::DIRECTORY | OpenFlags::TRUNCATE, DescriptorFlags::READ));
        assert!(!new(OpenFlags::empty(), DescriptorFlags::READ | DescriptorFlags::FILE_INTEGRITY_SYNC));
        assert!(new(OpenFlags::DIRECTORY, DescriptorFlags::READ));
        // Creating and cutting short are writing, whatever the mode asked for.
        let opening = |how| Opening::new("x".into(), PathFlags::empty(), how, DescriptorFlags::READ).unwrap();
        assert!(opening(OpenFlags::CREATE).write && opening(OpenFlags::TRUNCATE).write);
        assert!(!opening(OpenFlags::empty()).write);
    }

    #[test]
    fn a_directory_with_too_many_entries_is_refused_whole() {
        let place = tempfile::tempdir().unwrap();
        (0..10).for_each(|n| std::fs::write(place.path().join(n.to_string()), "").unwrap());
        let dir = std::fs::File::open(place.path()).unwrap();
        assert_eq!(entries(&dir, 10).unwrap().len(), 10);
        assert!(entries(&dir, 9).is_err());
    }
}
