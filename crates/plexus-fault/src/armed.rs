//! What a point does when a test has armed it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

/// How long the thread that stops the process sleeps afterwards: far longer than the kernel takes
/// to stop all other threads.
const UNTIL_STOPPED: Duration = Duration::from_millis(100);

/// What to do at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Kill,
    Freeze,
    Error,
}

/// One order from the environment.
#[derive(Debug)]
struct Order {
    name: String,
    action: Action,
    /// On which pass through the point the order strikes, from 1.
    nth: u64,
    reached: AtomicU64,
}

/// The orders of this process, read once.
#[derive(Debug)]
struct Orders {
    list: Vec<Order>,
    dir: PathBuf,
}

/// Stops the process if an order says so for this pass through the point.
pub fn reached(name: &str) {
    let Some((order, dir)) = order(name, |action| action != Action::Error) else { return };
    if order.reached.fetch_add(1, Ordering::SeqCst) + 1 != order.nth {
        return;
    }
    let mark = dir.join(format!("{name}@{}", order.nth));
    // The process that creates the mark strikes. Another process with the same orders finds it and
    // goes on.
    let Ok(mut mark) = OpenOptions::new().write(true).create_new(true).open(mark) else { return };
    if writeln!(mark, "{}", std::process::id()).is_err() {
        return;
    }
    let signal = if order.action == Action::Kill { Signal::KILL } else { Signal::STOP };
    if kill_process(getpid(), signal).is_ok() {
        std::thread::sleep(UNTIL_STOPPED);
    }
}

/// Returns whether an order makes the next step fail.
#[must_use]
pub fn fails(name: &str) -> bool {
    order(name, |action| action == Action::Error).is_some_and(|(_, dir)| dir.join(name).exists())
}

/// Returns the first half of `bytes` if an order for `name` has yet to strike in this process.
#[must_use]
pub fn cut<'a>(name: &str, bytes: &'a [u8]) -> &'a [u8] {
    let waits = order(name, |action| action != Action::Error)
        .is_some_and(|(order, _)| order.reached.load(Ordering::SeqCst) < order.nth);
    if waits { &bytes[..bytes.len().div_ceil(2)] } else { bytes }
}

fn order(
    name: &str,
    wanted: impl Fn(Action) -> bool,
) -> Option<(&'static Order, &'static PathBuf)> {
    static ORDERS: OnceLock<Option<Orders>> = OnceLock::new();
    let orders = ORDERS.get_or_init(from_environment).as_ref()?;
    let order = orders.list.iter().find(|order| order.name == name && wanted(order.action))?;
    Some((order, &orders.dir))
}

fn from_environment() -> Option<Orders> {
    let orders = std::env::var("PLEXUS_FAULT").ok()?;
    let dir = std::env::var_os("PLEXUS_FAULT_DIR")?.into();
    let list = orders.split(',').filter_map(read).collect();
    Some(Orders { list, dir })
}

/// Reads `NAME:ACTION[@N]`; returns `None` for anything else.
fn read(text: &str) -> Option<Order> {
    let (name, rest) = text.trim().split_once(':')?;
    let (action, nth) = match rest.split_once('@') {
        Some((action, nth)) => (action, nth.parse().ok().filter(|nth| *nth > 0)?),
        None => (rest, 1),
    };
    let action = match action {
        "kill" => Action::Kill,
        "freeze" => Action::Freeze,
        "error" => Action::Error,
        _ => return None,
    };
    Some(Order { name: name.to_owned(), action, nth, reached: AtomicU64::new(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_name_an_action_and_a_count() {
        let shown = |text| read(text).map(|order| (order.name, order.action, order.nth));
        assert_eq!(shown("a.b:kill"), Some(("a.b".to_owned(), Action::Kill, 1)));
        assert_eq!(shown(" a:freeze@3"), Some(("a".to_owned(), Action::Freeze, 3)));
        for wrong in ["", "a", "a:melt", "a:kill@0", "a:kill@x"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_process_without_orders_passes_every_point() {
        reached("nowhere");
        assert!(!fails("nowhere"));
        assert_eq!(cut("nowhere", b"abc"), b"abc");
    }
}
