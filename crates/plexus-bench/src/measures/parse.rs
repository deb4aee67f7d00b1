//! Compares parsers of a stream-json log at equal depth: each decodes every text that a reader
//! would show.
//!
//! The log is the real CLI's output in our recorded runs, repeated until it is long enough.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use claude_code::event::message::{ContentBlock, MessageContent};
use claude_code::event::stream::{Delta, StreamPart};
use claude_code::{ClaudeStreamJsonEvent, ClaudeStreamJsonParser, EventBody};
use serde_json::Value;

use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::sizes::Sizes;
use crate::stats::rate;

pub(super) struct Parse;

#[async_trait(?Send)]
impl Measure for Parse {
    fn name(&self) -> &'static str {
        "parse"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["parse_value_ratio", "parse_peer_ratio"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let log = log(sizes.log_bytes)?;
        let (mut ours, mut value, mut peer) = (Vec::new(), Vec::new(), Vec::new());
        // The readers take turns within each round, so that a busy moment of the machine does not
        // affect only one.
        for _ in 0..sizes.rounds {
            ours.push(megabytes_per_second(&log, typed)?);
            value.push(megabytes_per_second(&log, |line| {
                serde_json::from_str::<Value>(line).is_ok_and(kept)
            })?);
            peer.push(megabytes_per_second(&log, |line| {
                claude_codes::ClaudeOutput::parse_json(line).is_ok_and(kept)
            })?);
        }
        let over = |rival: &[f64]| {
            ours.iter().zip(rival).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>()
        };
        let what = format!(
            "typed events with every text read from {:.0} MB of recorded logs, over \
             `serde_json::Value`",
            sizes.log_bytes as f64 / 1e6
        );
        let figure = Figure::new("parse_value_ratio", what, "", over(&value), Aim::AtLeast(1.5));
        figures.push(figure.beside("ours", &ours, "MB/s").beside(
            "serde_json::Value",
            &value,
            "MB/s",
        ));
        let figure = Figure::new(
            "parse_peer_ratio",
            "the same, over the crate `claude-codes`",
            "",
            over(&peer),
            Aim::AtLeast(2.0),
        );
        figures.push(figure.beside("claude-codes", &peer, "MB/s"));
        Ok(())
    }
}

/// Returns the recorded lines that every reader can read, so that none gains by giving up early,
/// repeated up to `bytes`.
fn log(bytes: usize) -> Result<Vec<String>> {
    let logs = testkit::fixtures::all()?;
    let lines = logs.iter().flat_map(|(_, text)| text.lines());
    let readable =
        |line: &&str| typed(line) && claude_codes::ClaudeOutput::parse_json(line).is_ok();
    let once: Vec<&str> = lines.filter(readable).collect();
    ensure!(!once.is_empty(), "no recorded line can be read by every reader");
    let mut size = 0;
    let taken = once.iter().cycle().take_while(|line| {
        let is_short = size < bytes;
        size += line.len();
        is_short
    });
    Ok(taken.map(|line| (*line).to_owned()).collect())
}

fn megabytes_per_second(log: &[String], mut read: impl FnMut(&str) -> bool) -> Result<f64> {
    let bytes: usize = log.iter().map(String::len).sum();
    let started = Instant::now();
    let understood = log.iter().filter(|line| read(line)).count();
    let took = started.elapsed();
    ensure!(understood == log.len(), "{understood} of {} lines were read", log.len());
    Ok(rate(bytes, took) / 1e6)
}

fn kept<T>(value: T) -> bool {
    black_box(value);
    true
}

fn typed(line: &str) -> bool {
    let mut parser = ClaudeStreamJsonParser::new();
    parser
        .parse_bytes(line.as_bytes())
        .ok()
        .flatten()
        .is_some_and(|event| black_box(texts(&event)) > 0)
}

/// Reads every text that is shown to a user, so that none stays undecoded.
fn texts(event: &ClaudeStreamJsonEvent) -> usize {
    1 + match &event.body {
        EventBody::Assistant(assistant) => content(&assistant.message.content),
        EventBody::User(user) => content(&user.message.content),
        EventBody::Stream(stream) => match &stream.event {
            StreamPart::ContentBlockDelta {
                delta:
                    Delta::Text(text)
                    | Delta::InputJson(text)
                    | Delta::Thinking(text)
                    | Delta::Signature(text),
                ..
            } => text.len(),
            _ => 0,
        },
        _ => 0,
    }
}

fn content(content: &MessageContent) -> usize {
    match content {
        MessageContent::Text(text) => text.len(),
        MessageContent::Blocks(blocks) => blocks.iter().map(block).sum(),
        MessageContent::Other(raw) => raw.get().len(),
    }
}

fn block(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(text) => text.len(),
        ContentBlock::Thinking(thinking) => thinking.thinking.len(),
        ContentBlock::ToolUse(tool) => tool.name.len() + tool.input.get().len(),
        ContentBlock::ToolResult(result) => content(&result.content),
        _ => 0,
    }
}
