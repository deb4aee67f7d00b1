//! A driver together with its memory, for any driver: what a run keeps of its agent.

use std::any::Any;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_lines::journal::LineContent;
use plexus_store::{JsonText, StoreError};
use plexus_wire::{AgentPowers, Answers, Question, ToolCall};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Begin, ChildEnv, Driver, Identified, Launch, LaunchError, Memory, NotParkable, OutLine, Plan,
    ProjectFiles, Report, Say, Step, TranscriptPlace, UnusableProgram, VersionAnswer, WaitingCall,
    WakeMark, WokenCall,
};

use crate::wall::WallNeeds;

/// A [`Driver`] of any kind.
pub trait AnyDriver: Send + Sync + 'static {
    /// As [`Driver::kind`].
    fn kind(&self) -> &'static str;

    /// As [`Driver::powers`].
    fn powers(&self) -> AgentPowers;

    /// As [`Driver::unpriced`].
    fn unpriced(&self, model: Option<&str>) -> Option<String>;

    /// As [`Driver::permit_flags`].
    fn permit_flags(&self) -> Option<&'static [&'static str]>;

    /// As [`Driver::takes_edit`].
    fn takes_edit(&self, tool_name: &str) -> bool;

    /// As [`Driver::identify`].
    ///
    /// # Errors
    /// As [`Driver::identify`].
    fn identify(
        &self,
        program: &Path,
        version: VersionAnswer,
    ) -> Result<Identified, UnusableProgram>;

    /// As [`Driver::must_be_absent`].
    fn must_be_absent(&self) -> Vec<PathBuf>;

    /// As [`Driver::project_files`].
    fn project_files(&self) -> ProjectFiles;

    /// As [`Driver::prestarts`].
    fn prestarts(&self) -> bool;

    /// As [`Driver::read_at_start`].
    fn read_at_start(&self) -> Vec<&'static str>;

    /// As [`Driver::launch`].
    ///
    /// # Errors
    /// As [`Driver::launch`].
    fn launch(&self, launch: &Launch<'_>) -> Result<Plan, LaunchError>;

    /// As [`Driver::tool_call`].
    fn tool_call(&self, tool_name: &str, input: &Value) -> ToolCall;

    /// As [`Driver::wall`].
    fn wall(&self) -> Option<WallNeeds>;

    /// As [`Driver::question`].
    fn question(&self, tool_name: &str, input: &Value) -> Option<Question>;

    /// As [`Driver::answered`].
    ///
    /// # Errors
    /// As [`Driver::answered`].
    fn answered(&self, tool_name: &str, input: &Value, answers: &Answers) -> Result<Value, String>;

    /// As [`Driver::answers`].
    fn answers(&self, tool_name: &str, input: &Value) -> Option<Answers>;

    /// As [`Driver::transcript`].
    fn transcript(&self, conversation: &str, env: ChildEnv<'_>) -> Option<TranscriptPlace>;

    /// As [`Driver::woken_call`].
    fn woken_call(&self, tool_use_id: &str, transcript: &str) -> WokenCall;

    /// The mind of a run that has said nothing yet.
    fn begin(self: Arc<Self>, begin: &Begin<'_>) -> Box<dyn Mind>;

    /// The mind of a run whose memory was stored; without any, of one that remembers nothing.
    ///
    /// # Errors
    /// When it is not this driver's.
    fn recall(self: Arc<Self>, memory: Option<&JsonText>) -> Result<Box<dyn Mind>, StoreError>;
}

/// What a run keeps of its agent: how to read and write its lines, and the memory of earlier lines.
pub trait Mind: Debug + Send + Sync {
    /// As [`Driver::powers`].
    fn powers(&self) -> AgentPowers;

    /// As [`Driver::prompts_repeat`].
    fn prompts_repeat(&self) -> bool;

    /// As [`Driver::must_be_absent`].
    fn must_be_absent(&self) -> Vec<PathBuf>;

    /// As [`Driver::read`].
    fn read(&mut self, line: &LineContent) -> Vec<Step>;

    /// As [`Driver::write`].
    fn write(&self, say: &Say<'_>) -> Vec<OutLine>;

    /// As [`Driver::wall`].
    fn wall(&self) -> Option<WallNeeds>;

    /// As [`Driver::transcript`].
    fn transcript(&self, conversation: &str, env: ChildEnv<'_>) -> Option<TranscriptPlace>;

    /// As [`Driver::parkable`].
    ///
    /// # Errors
    /// As [`Driver::parkable`].
    fn parkable(&self, call: &WaitingCall<'_>, transcript: &str) -> Result<WakeMark, NotParkable>;

    /// As [`Memory::begin_turn`].
    fn begin_turn(&mut self, prompt: Option<Uuid>);

    /// As [`Memory::steered`].
    fn steered(&mut self, message: Uuid);

    /// As [`Memory::end_turn`].
    fn end_turn(&mut self);

    /// As [`Memory::report`].
    fn report(&self) -> Report;

    /// As [`Memory::unfinished`].
    fn unfinished(&self) -> Option<&str>;

    /// As [`Memory::holds_back`].
    fn holds_back(&self) -> bool;

    /// What is stored of it.
    ///
    /// # Errors
    /// When it cannot be JSON.
    fn stored(&self) -> Result<JsonText, StoreError>;

    /// A second one that knows the same.
    fn copy(&self) -> Box<dyn Mind>;

    /// Whether the other knows the same.
    fn knows_the_same(&self, other: &dyn Mind) -> bool;

    /// What it is, for [`Mind::knows_the_same`].
    fn as_any(&self) -> &dyn Any;
}

impl<D: Driver> AnyDriver for D {
    fn kind(&self) -> &'static str {
        Driver::kind(self)
    }

    fn powers(&self) -> AgentPowers {
        Driver::powers(self)
    }

    fn unpriced(&self, model: Option<&str>) -> Option<String> {
        Driver::unpriced(self, model)
    }

    fn permit_flags(&self) -> Option<&'static [&'static str]> {
        Driver::permit_flags(self)
    }

    fn takes_edit(&self, tool_name: &str) -> bool {
        Driver::takes_edit(self, tool_name)
    }

    fn identify(
        &self,
        program: &Path,
        version: VersionAnswer,
    ) -> Result<Identified, UnusableProgram> {
        Driver::identify(self, program, version)
    }

    fn must_be_absent(&self) -> Vec<PathBuf> {
        Driver::must_be_absent(self)
    }

    fn project_files(&self) -> ProjectFiles {
        Driver::project_files(self)
    }

    fn prestarts(&self) -> bool {
        Driver::prestarts(self)
    }

    fn read_at_start(&self) -> Vec<&'static str> {
        Driver::read_at_start(self)
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Plan, LaunchError> {
        Driver::launch(self, launch)
    }

    fn tool_call(&self, tool_name: &str, input: &Value) -> ToolCall {
        Driver::tool_call(self, tool_name, input)
    }

    fn wall(&self) -> Option<WallNeeds> {
        Driver::wall(self)
    }

    fn question(&self, tool_name: &str, input: &Value) -> Option<Question> {
        Driver::question(self, tool_name, input)
    }

    fn answered(&self, tool_name: &str, input: &Value, answers: &Answers) -> Result<Value, String> {
        Driver::answered(self, tool_name, input, answers)
    }

    fn answers(&self, tool_name: &str, input: &Value) -> Option<Answers> {
        Driver::answers(self, tool_name, input)
    }

    fn transcript(&self, conversation: &str, env: ChildEnv<'_>) -> Option<TranscriptPlace> {
        Driver::transcript(self, conversation, env)
    }

    fn woken_call(&self, tool_use_id: &str, transcript: &str) -> WokenCall {
        Driver::woken_call(self, tool_use_id, transcript)
    }

    fn begin(self: Arc<Self>, begin: &Begin<'_>) -> Box<dyn Mind> {
        let memory = Driver::begin(&*self, begin);
        Box::new(MindOf { driver: self, memory })
    }

    fn recall(self: Arc<Self>, memory: Option<&JsonText>) -> Result<Box<dyn Mind>, StoreError> {
        let memory = memory.map(JsonText::read).transpose()?.unwrap_or_default();
        Ok(Box::new(MindOf { driver: self, memory }))
    }
}

/// A driver and its memory.
struct MindOf<D: Driver> {
    driver: Arc<D>,
    memory: D::Memory,
}

impl<D: Driver> Mind for MindOf<D> {
    fn powers(&self) -> AgentPowers {
        self.driver.powers()
    }

    fn prompts_repeat(&self) -> bool {
        self.driver.prompts_repeat()
    }

    fn must_be_absent(&self) -> Vec<PathBuf> {
        self.driver.must_be_absent()
    }

    fn read(&mut self, line: &LineContent) -> Vec<Step> {
        self.driver.read(&mut self.memory, line)
    }

    fn write(&self, say: &Say<'_>) -> Vec<OutLine> {
        self.driver.write(&self.memory, say)
    }

    fn wall(&self) -> Option<WallNeeds> {
        self.driver.wall()
    }

    fn transcript(&self, conversation: &str, env: ChildEnv<'_>) -> Option<TranscriptPlace> {
        self.driver.transcript(conversation, env)
    }

    fn parkable(&self, call: &WaitingCall<'_>, transcript: &str) -> Result<WakeMark, NotParkable> {
        self.driver.parkable(&self.memory, call, transcript)
    }

    fn begin_turn(&mut self, prompt: Option<Uuid>) {
        self.memory.begin_turn(prompt);
    }

    fn steered(&mut self, message: Uuid) {
        self.memory.steered(message);
    }

    fn end_turn(&mut self) {
        self.memory.end_turn();
    }

    fn report(&self) -> Report {
        self.memory.report()
    }

    fn unfinished(&self) -> Option<&str> {
        self.memory.unfinished()
    }

    fn holds_back(&self) -> bool {
        self.memory.holds_back()
    }

    fn stored(&self) -> Result<JsonText, StoreError> {
        JsonText::of(&self.memory)
    }

    fn copy(&self) -> Box<dyn Mind> {
        Box::new(Self { driver: Arc::clone(&self.driver), memory: self.memory.clone() })
    }

    fn knows_the_same(&self, other: &dyn Mind) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| other.memory == self.memory)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<D: Driver> Debug for MindOf<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.memory.fmt(f)
    }
}

impl Clone for Box<dyn Mind> {
    fn clone(&self) -> Self {
        self.copy()
    }
}
