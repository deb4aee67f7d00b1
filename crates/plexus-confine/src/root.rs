//! A file system of its own: an empty root into which the listed paths are mounted, and nothing
//! else. What is not listed does not exist inside.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::mount::{mount, mount_change, unmount};

use crate::apart::OPEN;
use crate::guard::Mask;
use crate::mounts::{self, Table, attach, hold};
use crate::plan::Plan;
use crate::stage::StageError;

/// Flags of every file system that we make.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
/// The most that a program may keep in `/dev/shm`, which is memory.
const SHM: &std::ffi::CStr = c"mode=0700,size=1g";

/// Makes a user, mount, network and IPC namespace. One user is mapped, to itself: files keep their
/// owner, and `id` says the same as outside. The processes of a dry run get a namespace too, so
/// that all of them end with the first.
pub(crate) fn enter_namespaces(plan: &Plan) -> Result<(), StageError> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC;
    if plan.is_dry_run {
        flags |= CloneFlags::CLONE_NEWPID;
    }
    unshare(flags).map_err(|error| StageError::new("make namespaces", error).next(advice()))?;
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
    ] {
        fs::write(file, text)
            .map_err(|error| StageError::new(format!("write {file}"), error).next(advice()))?;
    }
    Ok(())
}

/// The next step for a machine that permits no user namespace.
pub(crate) fn advice() -> &'static str {
    let is = |name: &str, value: &str| {
        fs::read_to_string(Path::new("/proc/sys").join(name)).is_ok_and(|text| text.trim() == value)
    };
    if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts user namespaces here: a profile for the plexus program with `userns,` \
         permits it"
    } else if is("user/max_user_namespaces", "0") {
        "user namespaces are switched off here: sysctl user.max_user_namespaces"
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "user namespaces are switched off here: sysctl kernel.unprivileged_userns_clone"
    } else {
        "a container or its seccomp filter refuses namespaces: the tier landlock works without"
    }
}

/// Replaces the root by one with nothing in it but what the plan lists.
pub(crate) fn change(plan: &Plan) -> Result<(), StageError> {
    let step = |doing: &str, error: rustix::io::Errno| StageError::new(doing, error);
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(|error| step("make the mounts private", error))?;
    for (dir, state) in &plan.layers {
        put_layer(dir, state)?;
    }
    // Everything is held before the names change.
    let mut trees = hold_all(plan)?;
    mount("plexus", &plan.temp_dir, "tmpfs", PLAIN, c"mode=0755,size=16m")
        .map_err(|error| step("make a new root", error))?;
    std::env::set_current_dir(&plan.temp_dir)
        .map_err(|error| StageError::new("enter the new root", error))?;
    // The old root is put on top of the new one and taken away with everything below it.
    rustix::process::pivot_root(".", ".").map_err(|error| step("change the root", error))?;
    unmount(".", UnmountFlags::DETACH).map_err(|error| step("leave the old root", error))?;
    std::env::set_current_dir("/").map_err(|error| StageError::new("enter the root", error))?;

    // Directories before what is mounted below them.
    trees.sort_by_key(|(path, _)| path.components().count());
    make_devices()?;
    for (path, tree) in &trees {
        match tree {
            Tree::Held(tree) => {
                mounts::make_point(path, tree)?;
                attach(tree, path)?;
            }
            Tree::Pin => pin(path)?,
        }
    }
    // Links after the directories that they may lie in.
    for (name, target) in &plan.links {
        make_link(name, &plan.inside(target))?;
    }
    for name in &plan.apart {
        make_link(name, &plan.inside(name))?;
    }
    for path in &plan.hide {
        hide(path)?;
    }
    protect(plan)?;
    make_read_only(plan)
}

/// What is mounted in the new root.
enum Tree {
    /// Something of the old one.
    Held(OwnedFd),
    /// A directory of nothing but the way to other trees ([`crate::apart`]).
    Pin,
}

fn hold_all(plan: &Plan) -> Result<Vec<(PathBuf, Tree)>, StageError> {
    let mut trees = Vec::new();
    for path in plan.read.iter().chain(&plan.write).chain(plan.layers.keys()) {
        trees.push((plan.inside(path), Tree::Held(hold(path)?)));
    }
    for path in &plan.devices {
        trees.push((path.clone(), Tree::Held(hold(path)?)));
    }
    for (name, at) in [("tmp", "/tmp"), ("var-tmp", "/var/tmp")] {
        trees.push((at.into(), Tree::Held(hold(&plan.temp_dir.join(name))?)));
    }
    trees.extend(plan.pins().into_iter().map(|path| (path, Tree::Pin)));
    Ok(trees)
}

/// Mounts a directory that is made read-only once everything is in it.
fn pin(path: &Path) -> Result<(), StageError> {
    fs::create_dir_all(path).map_err(|error| StageError::path("make", path, error))?;
    mount("way", path, "tmpfs", PLAIN, c"mode=0755,size=1m")
        .map_err(|error| StageError::path("mount", path, error))
}

/// Puts a layer over a directory that takes all changes.
fn put_layer(dir: &Path, state: &Path) -> Result<(), StageError> {
    let [up, work] = layer_dirs(state, std::process::id());
    make_anew(&up)?;
    make_anew(&work)?;
    let text = |path: &Path| {
        let text = path.to_str().ok_or_else(|| StageError::path("name", path, "it is not text"))?;
        Ok::<_, StageError>(text.replace('\\', "\\\\").replace(',', "\\,").replace(':', "\\:"))
    };
    // `userxattr` makes it work without root; `volatile` leaves out every sync, because nobody
    // needs these files after a crash.
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr,volatile",
        text(dir)?,
        text(&up)?,
        text(&work)?
    );
    let options = std::ffi::CString::new(options)
        .map_err(|error| StageError::path("put a layer over", dir, error))?;
    mount("overlay", dir, "overlay", PLAIN, options.as_c_str()).map_err(|error| {
        StageError::path("put a layer over", dir, error)
            .next("the temporary directory must not itself lie on an overlay file system")
    })
}

/// Returns the two directories of one layer of a process: what it changed, and one that the kernel
/// needs. They are new for each process, because a layer without syncs cannot be mounted twice.
/// They lie side by side, because a directory on disk is among the dearest things that a stage
/// makes.
pub(crate) fn layer_dirs(state: &Path, process: u32) -> [PathBuf; 2] {
    ["up", "work"].map(|part| {
        let mut name = state.to_owned().into_os_string();
        name.push(format!("-{process}-{part}"));
        name.into()
    })
}

/// Makes an empty directory. One of that name is left over from a process that has ended, so it is
/// removed first.
fn make_anew(dir: &Path) -> Result<(), StageError> {
    let made = fs::create_dir(dir).or_else(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            plexus_files::remove_all(dir).and_then(|()| fs::create_dir(dir))
        }
        // A plan of an earlier release names a directory that the stage makes too.
        std::io::ErrorKind::NotFound => fs::create_dir_all(dir),
        _ => Err(error),
    });
    made.map_err(|error| StageError::path("make", dir, error))
}

/// `/dev` with terminals and shared memory of its own. The devices themselves are listed paths.
fn make_devices() -> Result<(), StageError> {
    for dir in ["/dev/pts", "/dev/shm"] {
        fs::create_dir_all(dir).map_err(|error| StageError::new(format!("make {dir}"), error))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", "/dev/pts", "devpts", flags, c"newinstance,ptmxmode=0666,mode=0620")
        .map_err(|error| StageError::new("make terminals", error))?;
    mount("shm", "/dev/shm", "tmpfs", PLAIN, SHM)
        .map_err(|error| StageError::new("make shared memory", error))?;
    for (name, target) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        make_link(Path::new(name), Path::new(target))?;
    }
    Ok(())
}

/// Makes a link, unless a mounted directory has something of that name already.
fn make_link(name: &Path, target: &Path) -> Result<(), StageError> {
    if name.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(dir) = name.parent() {
        fs::create_dir_all(dir).map_err(|error| StageError::path("make", dir, error))?;
    }
    symlink(target, name).map_err(|error| StageError::path("link", name, error))
}

/// Covers a path with nothing.
fn hide(path: &Path) -> Result<(), StageError> {
    let fail = |error: rustix::io::Errno| StageError::path("hide", path, error);
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => {
            mount("nothing", path, "tmpfs", PLAIN | MountFlags::RDONLY, c"mode=0000").map_err(fail)
        }
        Ok(_) => attach(&hold(Path::new("/dev/null"))?, path),
        Err(_) => Ok(()),
    }
}

/// Mounts the protected places onto themselves, to be made read-only. So are the directories on the
/// way: a mount point cannot be renamed, but the directory that holds one can, and
/// `mv .git x; cp -r x .git` would be the way around.
fn protect(plan: &Plan) -> Result<(), StageError> {
    let mut pinned: Vec<&Path> = plan.write.iter().map(PathBuf::as_path).collect();
    let mount_again = |path: &Path| {
        let path = plan.inside(path);
        attach(&hold(&path)?, &path)
    };
    for place in &plan.protect {
        let Some(root) = place.ancestors().find(|dir| plan.write.contains(*dir)) else { continue };
        let mut on_the_way: Vec<&Path> =
            place.ancestors().skip(1).take_while(|dir| *dir != root).collect();
        on_the_way.reverse();
        // A link in a writable directory cannot be held by a mount: the watch reports a change.
        let is_link = |dir: &&Path| plan.inside(dir).is_symlink();
        if on_the_way.iter().any(is_link) {
            continue;
        }
        if let Some(mask) = plan.masks.get(place) {
            put_mask(&plan.inside(place), *mask)?;
        }
        let meta = plan.inside(place).symlink_metadata();
        if !meta.is_ok_and(|meta| meta.is_file() || meta.is_dir()) {
            continue;
        }
        for dir in on_the_way {
            if !pinned.contains(&dir) {
                mount_again(dir)?;
                pinned.push(dir);
            }
        }
        mount_again(place)?;
    }
    Ok(())
}

/// Makes what stands for nothing at a place in a git directory, unless something is there. It stays
/// after the run: another run may rely on it, and the kernel would take its mount away with it.
fn put_mask(place: &Path, mask: Mask) -> Result<(), StageError> {
    // Git needs no `info`, so it may be missing.
    let made = place.parent().map_or(Ok(()), make_dir).and_then(|()| match mask.text() {
        None => fs::create_dir(place),
        Some(text) => fs::File::create_new(place).and_then(|mut it| it.write_all(text.as_bytes())),
    });
    match made.map_err(|error| (error.kind(), error)) {
        Ok(()) => Ok(()),
        // The repository is gone, or this program cannot write it either.
        Err((
            ErrorKind::AlreadyExists
            | ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem,
            _,
        )) => Ok(()),
        Err((_, error)) => Err(StageError::path("mask", place, error)),
    }
}

fn make_dir(dir: &Path) -> std::io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes every mount read-only except the writable ones. Each mount keeps the flags that it has,
/// because a user may not remove them.
fn make_read_only(plan: &Plan) -> Result<(), StageError> {
    let inside = |paths: &BTreeSet<PathBuf>| -> BTreeSet<PathBuf> {
        paths.iter().map(|path| plan.inside(path)).collect()
    };
    let (mut read, mut write) = (inside(&plan.read), inside(&plan.write));
    read.extend(plan.pins());
    write.extend(OPEN.iter().chain(&["/dev/pts"]).map(PathBuf::from));
    let protected = inside(&plan.protect);
    let is_protected = |point: &Path| protected.iter().any(|place| point.starts_with(place));
    for mount in Table::read()?.mounts {
        let point = mount.point.as_path();
        // Read-only and writable roots may contain each other: the nearest one counts.
        let nearest = point.ancestors().find_map(|dir| {
            let is_writable =
                write.contains(dir) || plan.layers.contains_key(dir) || plan.devices.contains(dir);
            if is_writable {
                Some(true)
            } else if read.contains(dir) {
                Some(false)
            } else {
                None
            }
        });
        if nearest == Some(true) && !is_protected(point) {
            continue;
        }
        mounts::remount_read_only(&mount)?;
    }
    Ok(())
}
