//! Compares how fast this crate and other parsers read a stream-json log: `cargo bench -p
//! claude_code`.
//!
//! The log is generated from recorded lines of the real CLI, with texts and tool results of other
//! lengths. Every parser gets the same lines, in memory. The best of several rounds counts, because
//! other work of the machine only ever slows a round down.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark talks to the person who runs it"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use claude_code::event::message::{ContentBlock, MessageContent};
use claude_code::event::stream::{Delta, StreamPart};
use claude_code::{ClaudeStreamJsonEvent, ClaudeStreamJsonParser, EventBody};
use serde_json::Value;

/// The size of the log, unless `BENCH_MEGABYTES` says otherwise.
const MEGABYTES: usize = 110;
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --all-targets` runs benchmarks too, without this argument, and only checks that
    // they start.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let megabytes = std::env::var("BENCH_MEGABYTES")
        .ok()
        .and_then(|megabytes| megabytes.parse().ok())
        .unwrap_or(MEGABYTES);
    let log = generate(megabytes * 1_000_000);
    let lines: Vec<&str> = log.lines().collect();
    println!("{} lines, {:.1} MB, best of {ROUNDS} rounds\n", lines.len(), log.len() as f64 / 1e6);

    let parser = &mut ClaudeStreamJsonParser::new();
    let readers: [(&str, Reader<'_>); 7] = [
        ("line split", Box::new(|_, log, _| memchr::memchr_iter(b'\n', log.as_bytes()).count())),
        (
            "ours, envelope",
            Box::new(|parser, _, lines| {
                lines
                    .iter()
                    .filter(|line| {
                        parser.parse_envelope(line).is_ok_and(|found| black_box(found).is_some())
                    })
                    .count()
            }),
        ),
        (
            "ours, typed event",
            Box::new(|parser, _, lines| {
                let mut typed = |line: &str| {
                    parser
                        .parse_bytes(line.as_bytes())
                        .is_ok_and(|event| black_box(event).is_some())
                };
                lines.iter().filter(|line| typed(line)).count()
            }),
        ),
        (
            "ours, typed event, every text read",
            Box::new(|parser, _, lines| {
                let mut typed = |line: &str| {
                    parser
                        .parse_bytes(line.as_bytes())
                        .ok()
                        .flatten()
                        .is_some_and(|event| read_texts(&event) > 0)
                };
                lines.iter().filter(|line| typed(line)).count()
            }),
        ),
        (
            "sonic-rs Value",
            Box::new(|_, _, lines| {
                lines
                    .iter()
                    .filter(|line| sonic_rs::from_str::<sonic_rs::Value>(line).is_ok())
                    .count()
            }),
        ),
        (
            VALUE,
            Box::new(|_, _, lines| {
                lines.iter().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count()
            }),
        ),
        (
            PEER,
            Box::new(|_, _, lines| {
                lines
                    .iter()
                    .filter(|line| claude_codes::ClaudeOutput::parse_json(line).is_ok())
                    .count()
            }),
        ),
    ];
    // The readers take turns, so that a busy minute of the machine does not affect only one of
    // them.
    let mut best = [(0.0f64, 0); 7];
    for _ in 0..ROUNDS {
        for ((_, reader), best) in readers.iter().zip(&mut best) {
            let started = Instant::now();
            let read = black_box(reader(parser, &log, &lines));
            let rate = log.len() as f64 / 1e6 / started.elapsed().as_secs_f64();
            *best = (best.0.max(rate), read);
        }
    }
    let rate_of = |wanted| {
        readers
            .iter()
            .zip(&best)
            .find(|((name, _), _)| *name == wanted)
            .map_or(1.0, |(_, best)| best.0)
    };
    println!("{:<36}{:>10}{:>12}{:>16}{:>12}", "", "MB/s", "x Value", "x claude-codes", "read");
    for ((name, _), (rate, read)) in readers.iter().zip(&best) {
        println!(
            "{name:<36}{rate:>10.0}{:>12.2}{:>16.2}{read:>12}",
            rate / rate_of(VALUE),
            rate / rate_of(PEER)
        );
    }
}

/// Reads the log, given whole and as lines, and counts the lines it could read.
type Reader<'a> = Box<dyn Fn(&mut ClaudeStreamJsonParser, &str, &[&str]) -> usize + 'a>;

const VALUE: &str = "serde_json Value";
const PEER: &str = "claude-codes, typed event";

/// Reads every text that a user of the log would show, so that none stays undecoded.
fn read_texts(event: &ClaudeStreamJsonEvent) -> usize {
    let content = |content: &MessageContent| match content {
        MessageContent::Text(text) => text.len(),
        MessageContent::Blocks(blocks) => blocks.iter().map(read_block).sum(),
        MessageContent::Other(raw) => raw.get().len(),
    };
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

fn read_block(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(text) => text.len(),
        ContentBlock::Thinking(thinking) => thinking.thinking.len(),
        ContentBlock::ToolUse(tool) => tool.name.len() + tool.input.get().len(),
        ContentBlock::ToolResult(result) => match &result.content {
            MessageContent::Text(text) => text.len(),
            MessageContent::Blocks(blocks) => blocks.iter().map(read_block).sum(),
            MessageContent::Other(raw) => raw.get().len(),
        },
        _ => 0,
    }
}

/// Generates a log of at least `bytes`: by size about two fifths stream events, one fifth messages
/// and two fifths tool results of 1 to 50 KB.
fn generate(bytes: usize) -> String {
    let template = |file: &str, wanted: &dyn Fn(&Value) -> bool| -> Value {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-2.1.325").join(file);
        let text = std::fs::read_to_string(path).expect("a fixture");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .find(wanted)
            .expect("such a line")
    };
    let mut delta =
        template("h_partial.jsonl", &|line| line["event"]["delta"]["type"] == "text_delta");
    let mut message = template("text.jsonl", &|line| line["type"] == "assistant");
    let mut call =
        template("allow.jsonl", &|line| line["message"]["content"][0]["type"] == "tool_use");
    let mut answer =
        template("allow.jsonl", &|line| line["message"]["content"][0]["type"] == "tool_result");
    let mut random = Random(42);
    let mut log = String::with_capacity(bytes + 200_000);
    let (mut deltas, mut messages, mut answers) = (0, 0, 0);
    while log.len() < bytes {
        let before = log.len();
        // The kind that lacks most of its share comes next.
        if deltas <= answers && deltas / 2 <= messages {
            delta["event"]["delta"]["text"] = random.text(1, 60).into();
            push(&mut log, &delta);
            deltas += log.len() - before;
        } else if messages <= answers / 2 {
            message["message"]["content"][0]["text"] = random.text(100, 3000).into();
            push(&mut log, &message);
            call["message"]["content"][0]["input"]["command"] = random.text(20, 400).into();
            push(&mut log, &call);
            messages += log.len() - before;
        } else {
            let output = random.text(1000, 50_000);
            answer["message"]["content"][0]["content"] = output.as_str().into();
            answer["tool_use_result"]["stdout"] = output.into();
            push(&mut log, &answer);
            answers += log.len() - before;
        }
    }
    log
}

fn push(log: &mut String, line: &Value) {
    log.push_str(&line.to_string());
    log.push('\n');
}

/// A random number generator with a fixed seed, so that every run gets the same log.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        // xorshift64*: good enough for text that only has to look like text.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % below
    }

    /// Generates text as tools print it: words, lines, quotes, paths, and now and then a character
    /// that is not ASCII.
    fn text(&mut self, shortest: usize, longest: usize) -> String {
        const WORDS: [&str; 16] = [
            "let",
            "journal",
            "=",
            "fn",
            "return",
            "\"quoted\"",
            "src/main.rs:42:",
            "error",
            "self.position()",
            "{",
            "}",
            "0x7f3a",
            "…",
            "größer",
            "C:\\path",
            "\t//",
        ];
        let wanted = shortest + self.next(longest - shortest);
        let mut text = String::with_capacity(wanted + 32);
        while text.len() < wanted {
            text.push_str(WORDS[self.next(WORDS.len())]);
            text.push(if self.next(9) == 0 { '\n' } else { ' ' });
        }
        text
    }
}
