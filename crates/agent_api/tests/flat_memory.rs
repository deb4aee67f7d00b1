//! A slow reader keeps the memory flat: 200,000 events pass through, and none of them stays.
//!
//! This is a program of its own, because resident memory belongs to the program and not to a test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly"
)]

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = support::stand_in::play_if_asked() {
        return code;
    }
    #[cfg(target_os = "linux")]
    return linux::main();
    #[cfg(not(target_os = "linux"))]
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{process::ExitCode, time::Duration};

    use agent_api::{AgentWrapperEventKind, AgentWrapperOutcome, conformance::Subject};
    use futures::StreamExt;
    use libtest_mimic::{Arguments, Failed, Trial};

    use crate::support::{claude::ClaudeSubject, stand_in::FLOOD};

    const EVENTS: u32 = 200_000;

    /// How many events to read before the measurement, until every buffer has its final size.
    const WARM: u32 = 20_000;

    /// The reader sleeps after this many events, so it always lags: the agent writes many times
    /// faster.
    const READ_AT_ONCE: u32 = 200;

    /// How much the memory may grow. A leak of a hundred bytes an event would be twice this.
    const TOLERANCE_BYTES: u64 = 8 * 1024 * 1024;

    /// The deadline: generous, for a debug build on a busy machine; the test takes seconds.
    const DEADLINE: Duration = Duration::from_secs(300);

    pub(super) fn main() -> ExitCode {
        let trial = Trial::test("a_slow_reader_of_200_000_events_keeps_the_memory_flat", || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?;
            runtime.block_on(async { tokio::time::timeout(DEADLINE, memory_stays_flat()).await })?
        });
        libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
    }

    async fn memory_stays_flat() -> Result<(), Failed> {
        let subject = ClaudeSubject::over_simulator();
        let mut request = subject.prompt("talk");
        request.env.insert(FLOOD.to_owned(), EVENTS.to_string());
        let mut handle = subject.backend().run(request).await?;
        let resident = || testkit::process::resident_bytes(std::process::id());
        let (mut texts, mut warm, mut peak) = (0, 0, 0);
        while let Some(event) = handle.events.next().await {
            if event.kind != AgentWrapperEventKind::TextOutput {
                continue;
            }
            texts += 1;
            if texts % READ_AT_ONCE == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                peak = peak.max(resident()?);
            }
            if texts == WARM {
                warm = resident()?;
                peak = warm;
            }
        }
        let completion = handle.completion.await?;
        if completion.outcome != AgentWrapperOutcome::Succeeded || texts != EVENTS {
            return Err(
                format!("{texts} texts came, and the run ended {:?}", completion.outcome).into()
            );
        }
        let growth = peak.saturating_sub(warm);
        if growth > TOLERANCE_BYTES {
            return Err(
                format!("{WARM} events took {warm} bytes, and the rest {growth} more").into()
            );
        }
        Ok(())
    }
}
