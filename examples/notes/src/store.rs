//! Where the notes are kept: one file of JSON, written anew with each note.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use plexus_core::SessionId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One note.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    /// The session that it is about.
    pub session_id: SessionId,
    /// The note.
    pub text: String,
}

/// All notes. Their ids sort by time.
pub struct Store {
    file: PathBuf,
    notes: Mutex<BTreeMap<Uuid, Note>>,
}

impl Store {
    /// Reads the file; one that does not exist holds no notes.
    pub(crate) fn open(file: PathBuf) -> Result<Self> {
        let notes = match std::fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text)?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { file, notes: Mutex::new(notes) })
    }

    /// Keeps a note. When this returns, it is in the file.
    pub(crate) fn add(&self, id: Uuid, note: Note) -> Result<()> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.insert(id, note);
        let text = serde_json::to_string(&*notes).map_err(Error::other)?;
        // Written beside and moved: a reader sees all of the old file or all of the new one.
        let beside = self.file.with_extension("new");
        let written =
            std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &self.file));
        if written.is_err() {
            notes.remove(&id);
        }
        written
    }

    pub(crate) fn get(&self, id: Uuid) -> Option<Note> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    pub(crate) fn of(&self, session: SessionId) -> Vec<(Uuid, Note)> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let about = notes.iter().filter(|(_, note)| note.session_id == session);
        about.map(|(id, note)| (*id, note.clone())).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
