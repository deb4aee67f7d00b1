//! What we tell an agent.

use plexus_wire::{PermitAnswer, PromptImage};
use uuid::Uuid;

/// What we want to say to an agent.
#[derive(Clone, Debug)]
pub enum Say<'a> {
    /// A prompt. The same id is done once, however often it is sent.
    Prompt {
        /// The prompt.
        id: Uuid,
        /// Its text.
        text: &'a str,
        /// Its images.
        images: &'a [PromptImage],
    },
    /// A message into the running turn.
    Steer {
        /// The message.
        id: Uuid,
        /// Its text.
        text: &'a str,
    },
    /// The answer to a question of the agent.
    Answer {
        /// The agent's id of its question.
        request_id: &'a str,
        /// What was decided.
        answer: &'a PermitAnswer,
    },
    /// Stop the running turn; the process stays.
    Interrupt,
    /// Which of your questions are open?
    WhatIsOpen,
}

/// One line for an agent's stdin, without its line ending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutLine(String);

impl OutLine {
    /// Takes a line, without its line ending, which the writer adds.
    #[must_use]
    pub fn new(line: String) -> Self {
        debug_assert!(!line.contains('\n'), "one line");
        Self(line)
    }

    /// The line as text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }

    /// The bytes to write.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
