//! A scripted stand-in for the `claude` CLI: same flags, same stream-json, asks permission like the
//! real one.
//!
//! Plexus starts it instead of `claude` in tests, benchmarks and the demo. It needs no key, no
//! network and no model, starts in milliseconds, and does rare things on request: garble a line,
//! hang, crash, flood. Its lines have the types, the order and the fields of the recorded runs in
//! `fixtures/claude-2.1.325`; a test holds it against them.
//!
//! # The story
//! A plain prompt plays a short story: a sentence, one Write of `plexus-sim.txt` (really written
//! after approval) and a closing sentence that differs when the Write was refused. A prompt that
//! begins with `sim:` is a script with one step a line; empty lines and lines that begin with `#`
//! are skipped.
//!
//! | step | what the model does |
//! |---|---|
//! | `say TEXT` | says it |
//! | `slowly MS TEXT` | says it word by word, with a pause after each; who interrupts gets what was said so far |
//! | `think TEXT` | thinks it |
//! | `tool NAME JSON` | calls a tool: Bash, Read, Write, Edit really run; `mcp__SERVER__TOOL` is really called |
//! | `parallel NAME JSON ;; NAME JSON` | calls several tools in one message |
//! | `overrule NAME JSON` | asks, withdraws the question and runs the tool all the same, as if a hook had accepted it |
//! | `breach NAME JSON` | runs the tool without asking and claims that somebody had answered |
//! | `request SUBTYPE` | sends a request of that subtype on the control channel and says the answer |
//! | `sleep MS` | waits |
//! | `wake MS TEXT` | begins a turn of its own later that says TEXT |
//! | `burst N BYTES` | says N numbered texts of BYTES bytes each |
//! | `recall` | says the earlier prompts of the conversation, one a line |
//! | `fail STATUS` | the model's API fails with that HTTP status, and the turn with it |
//! | `stderr TEXT` | writes a line to stderr |
//! | `garbage` | writes a line that is not JSON |
//! | `unknown` | writes a line of a type that nobody knows |
//! | `hang` | stands still for ever |
//! | `exit N` | ends the process with that code and no result |
//! | `crash` | kills the process with SIGKILL |
//!
//! `${last.FIELD}` in a `say` or in an input stands for a field of the last tool's result, read as
//! JSON; a path with dots goes deeper (`${last.session.id}`, `${last.items.0}`). Text and tools up
//! to a tool call make one message, as a real model's do; a script that ends with a tool call is
//! closed by `done`. A bad line is a `result` of subtype `error_during_execution` that names it.
//!
//! A prompt that arrives while tools run is folded into the turn: what it asks for is done next,
//! and a plain one is answered with `Noted: …`.
//!
//! # Other parts
//! With `--as codex` as its first words it plays `codex app-server` instead: the same prompts, the
//! lines of `fixtures/codex-0.169.0`. With `--as acp` it plays an agent of the Agent Client
//! Protocol.
//!
//! # Reading order
//! - `start`: from the command line ([`main_with_args`]) to a running process; `cli`: the flags
//! - `run`: the loop that listens to `stdin`, `signals` and `background` tasks while a turn plays;
//!   `control`: the lines of stdin
//! - `sim`: the state they share; `transcript`: conversations on disk; `rows`: calls in them, and
//!   one that is asked about again
//! - `turn`: plays the steps of a `script`; `message`: a message of the model; `last`: `${last.…}`
//! - `execute`: runs tool calls by the `rules` (`harmless`: shell commands that run unasked);
//!   `ask`, `question` and `answer`: permission; `tools` and `bash`: what really runs; `mcp`:
//!   servers
//! - `wire` and `result`: the lines; `out`: stdout
//! - `codex`, `acp`: the other parts

mod acp;
mod answer;
mod ask;
mod background;
mod bash;
mod cli;
mod codex;
mod control;
mod diary;
mod execute;
mod harmless;
mod last;
mod mcp;
mod message;
mod out;
mod question;
mod result;
mod rows;
mod rules;
mod run;
mod script;
mod signals;
mod sim;
mod start;
mod stdin;
mod tools;
mod transcript;
mod turn;
mod wire;

pub use start::main_with_args;
