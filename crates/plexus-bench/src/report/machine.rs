//! The machine on which the figures were taken.

use std::fs;

use serde_json::{Value, json};

/// Describes this machine and this build, without which a figure means nothing.
pub(super) fn describe() -> Value {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    json!({
        "cpu": field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
        "cores": cores,
        "memory": field("/proc/meminfo", "MemTotal").unwrap_or_else(|| "unknown".to_owned()),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
        "load_1m": fs::read_to_string("/proc/loadavg").ok().and_then(|text| text.split(' ').next()?.parse::<f64>().ok()),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
    })
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
