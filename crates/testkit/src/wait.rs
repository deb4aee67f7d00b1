//! Waiting for an event, with a deadline whose error names the missing event.
//!
//! A test that sleeps is either slow or unreliable. These helpers poll, quickly at first, and when
//! the deadline passes they fail with the name of the event.

use std::future::Future;
use std::time::{Duration, Instant};

/// The deadline for most tests: long enough for a loaded machine of two cores, short enough to
/// notice a hang.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The first pause between two polls; each pause is half as long again as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// The longest pause between two polls, so that a late event is noticed soon.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Calls `look` until it returns something, and returns that. Blocks the thread between two calls.
///
/// # Panics
///
/// When `deadline` has passed, with a message that says `what` did not come.
#[track_caller]
pub fn eventually<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < deadline, "this did not come within {deadline:?}: {what}");
        std::thread::sleep(pause);
        pause = longer(pause);
    }
}

/// The same as [`eventually`] for tests on an async runtime: `look` may await, and other tasks run
/// between two calls.
///
/// # Panics
///
/// When `deadline` has passed, with a message that says `what` did not come. A `look` that hangs
/// counts as well.
pub async fn eventually_async<T, F>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> F,
) -> T
where
    F: Future<Output = Option<T>>,
{
    let search = async {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(pause).await;
            pause = longer(pause);
        }
    };
    within(what, deadline, search).await
}

/// Awaits `work`, but no longer than `deadline`.
///
/// # Panics
///
/// When `deadline` has passed, with a message that says `what` did not come.
pub async fn within<T>(what: &str, deadline: Duration, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(deadline, work).await {
        Ok(done) => done,
        Err(_elapsed) => panic!("this did not come within {deadline:?}: {what}"),
    }
}

fn longer(pause: Duration) -> Duration {
    (pause + pause / 2).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_becomes_true_is_returned() {
        let mut looks = 0;
        let found = eventually("the third look", PATIENCE, || {
            looks += 1;
            (looks == 3).then_some("here")
        });
        assert_eq!((found, looks), ("here", 3));
    }

    #[test]
    #[should_panic(expected = "the moon")]
    fn a_passed_deadline_names_what_did_not_come() {
        eventually("the moon", Duration::from_millis(5), || None::<()>);
    }

    #[tokio::test]
    #[should_panic(expected = "an answer from the void")]
    async fn a_look_that_hangs_is_cut_off_too() {
        eventually_async(
            "an answer from the void",
            Duration::from_millis(5),
            std::future::pending::<Option<()>>,
        )
        .await;
    }
}
