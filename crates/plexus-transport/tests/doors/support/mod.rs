//! A small hub with real doors on a real listener, and functions with which tests wait for it.
//!
//! - `hub_state`: the questions and answers that its methods share.
//! - `activation`: its methods.
//! - `server`: its doors, and the tokens they accept.

mod activation;
mod hub_state;
mod server;

use std::time::Duration;

use testkit::wait::{self, PATIENCE};

pub(crate) use self::activation::{PANIC_MESSAGE, PANICS};
pub(crate) use self::hub_state::HubState;
pub(crate) use self::server::{CHILD, OPERATOR, OTHER_CHILD, PARENT, Server};

/// The polling interval: some conditions last no longer than a call that sleeps.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
    .await;
}

/// Waits for `future`.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    wait::within(what, PATIENCE, future).await
}
