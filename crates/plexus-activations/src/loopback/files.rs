//! `files`: the files that a pending call would change, as they are now, so that the decider
//! sees the difference and not only the new text. `preview`: what a pending command changes in a
//! dry run.
//!
//! Only the operator may ask for files. Only plain text inside the session's own directories is
//! read, after links are followed: the server must not show what the session itself has to ask for.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use plexus_core::{Call, CallError};
use plexus_engine::session::SessionConfig;
use plexus_wire::method::loopback as wire;
use plexus_wire::{
    FileContent, FileNow, FilesParams, FilesRead, PreviewParams, Previewed, ToolTarget,
};
use rustix::fs::OFlags;
use serde_json::Value;

use super::Loopback;

/// Bytes of one file: a difference of more than this is read by nobody.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Files of one call. The others are said not to be shown.
const MAX_FILES: usize = 64;

impl Loopback {
    pub(super) async fn files(
        &self,
        call: Call,
        params: FilesParams,
    ) -> Result<FilesRead, CallError> {
        let record = self.approvals.reach(&call.caller, params.approval_id).await?;
        let session = self.store.session(record.session).await?;
        let config = SessionConfig::of(&session)?;
        let input: Value = record.input.read()?;
        let target = self.approvals.views.tools.read(&config, &record.tool_name, &input).target;
        let mut paths: Vec<String> = Vec::new();
        if let ToolTarget::Write { changes } = target {
            for change in changes {
                if !paths.contains(&change.path) {
                    paths.push(change.path);
                }
            }
        }
        if self.neighbours.elsewhere(&session).await?.is_some() {
            let why = "the session runs on another server";
            let files = paths.into_iter().map(|path| FileNow { path, content: unread(why) });
            return Ok(FilesRead { files: files.collect() });
        }
        let reading = tokio::task::spawn_blocking(move || look_at_all(paths, &config));
        let files = reading.await.map_err(|_| CallError::internal("read the files"))?;
        Ok(FilesRead { files })
    }

    /// Runs on the server that has the child: the files are there.
    pub(super) async fn preview(
        &self,
        call: Call,
        params: PreviewParams,
    ) -> Result<Previewed, CallError> {
        let record = self.approvals.reach(&call.caller, params.approval_id).await?;
        let session = self.store.session(record.session).await?;
        match self.neighbours.elsewhere(&session).await? {
            Some(there) => {
                self.neighbours.relay::<wire::Preview>(&there, call.caller, &params).await
            }
            None => self.previews.run(&call.caller, &record, &session).await,
        }
    }
}

fn look_at_all(paths: Vec<String>, config: &SessionConfig) -> Vec<FileNow> {
    let own = std::iter::once(&config.working_dir).chain(&config.add_dirs);
    let own: Vec<PathBuf> = own.filter_map(|dir| dir.canonicalize().ok()).collect();
    let look = |(n, path): (usize, String)| {
        let content = if n < MAX_FILES {
            look_at(&config.working_dir.join(&path), &own)
        } else {
            unread(format_args!("a call shows {MAX_FILES} files at most"))
        };
        FileNow { path, content }
    };
    paths.into_iter().enumerate().map(look).collect()
}

fn look_at(path: &Path, own: &[PathBuf]) -> FileContent {
    let is_own = |path: &Path| own.iter().any(|dir| path.starts_with(dir));
    match path.canonicalize() {
        Ok(real) if is_own(&real) => {
            read(&real).unwrap_or_else(|error| unread(format_args!("it cannot be read: {error}")))
        }
        Ok(_) => unread("it lies outside of the session's directories"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if path.components().any(|part| part == Component::ParentDir) {
                return unread("nothing is there, and its path leads through ..");
            }
            // What is nearest to it says where it would be made; a link to nothing is there itself.
            let nearest = path.ancestors().find(|above| above.symlink_metadata().is_ok());
            match nearest.and_then(|above| above.canonicalize().ok()) {
                Some(above) if is_own(&above) => FileContent::Absent {},
                Some(_) => unread("it lies outside of the session's directories"),
                None => unread("it is a link to nothing"),
            }
        }
        Err(error) => unread(format_args!("it cannot be read: {error}")),
    }
}

fn read(path: &Path) -> std::io::Result<FileContent> {
    // A pipe in its place must not hold the reader.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(unread("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Ok(unread(format_args!("it is larger than {} KiB", MAX_FILE_BYTES / 1024)));
    }
    Ok(String::from_utf8(bytes)
        .map_or_else(|_| unread("it is not text"), |text| FileContent::Text { text }))
}

fn unread(why: impl std::fmt::Display) -> FileContent {
    FileContent::Unread { why: why.to_string() }
}
