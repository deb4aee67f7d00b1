//! Who decides about a host, and how long a connection is held for the answer.
//!
//! One question stands for all connections to one host and port. A connection is held for
//! [`Bounds::hold`] at most and then refused; the question stays open, and an answer that comes
//! later counts for the next try.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::{Connection, HostPattern};

/// What was decided about a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Let it through.
    Allow,
    /// Refuse it, with the reason that the program reads.
    Deny(String),
}

/// Decides whether the program may reach a host.
pub trait Decide: Send + Sync + 'static {
    /// Decides at once or waits for somebody. The caller bounds how long a connection waits for it,
    /// not how long the question stays open. `from` is the first connection that waits.
    fn decide(
        &self,
        host: &str,
        port: u16,
        from: Connection,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send>>;
}

/// The list alone: another host is refused at once.
#[derive(Clone, Debug, Default)]
pub struct ListedHosts(pub Vec<HostPattern>);

impl ListedHosts {
    /// Whether the list has this host.
    #[must_use]
    pub fn has(&self, host: &str, port: u16) -> bool {
        self.0.iter().any(|entry| entry.matches(host, port))
    }
}

impl Decide for ListedHosts {
    fn decide(
        &self,
        host: &str,
        port: u16,
        _: Connection,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send>> {
        let decision = if self.has(host, port) {
            Decision::Allow
        } else {
            Decision::Deny("it is not on the list of allowed hosts".to_owned())
        };
        Box::pin(std::future::ready(decision))
    }
}

/// How much may wait for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// How long one connection waits. Most tools give up after 300 s.
    pub hold: Duration,
    /// How many connections wait at a time.
    pub held_connections: usize,
    /// How many questions are open at a time.
    pub open_questions: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { hold: Duration::from_secs(280), held_connections: 64, open_questions: 16 }
    }
}

/// A question; it has a value once it was answered.
type Question = watch::Receiver<Option<Decision>>;

/// Asks, and holds connections.
pub(crate) struct Gate {
    decider: Arc<dyn Decide>,
    bounds: Bounds,
    held: Semaphore,
    /// Questions by host and port: open ones, and answers that nobody was there to hear.
    questions: Mutex<HashMap<(String, u16), Question>>,
}

impl Gate {
    pub(crate) fn new(decider: Arc<dyn Decide>, bounds: Bounds) -> Arc<Self> {
        let held = Semaphore::new(bounds.held_connections);
        Arc::new(Self { decider, bounds, held, questions: Mutex::default() })
    }

    /// Waits for the decision about a host, within the bounds.
    pub(crate) async fn pass(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        from: Connection,
    ) -> Decision {
        let Ok(_place) = self.held.try_acquire() else {
            return Decision::Deny("too many connections wait for an answer".to_owned());
        };
        let Some(mut answer) = self.question(host, port, from) else {
            return Decision::Deny("too many hosts wait for an answer".to_owned());
        };
        let heard = tokio::time::timeout(self.bounds.hold, answer.wait_for(Option::is_some)).await;
        match heard {
            Ok(Ok(decision)) => {
                let decision = decision.clone();
                self.forget_answered(host, port);
                decision.unwrap_or_else(|| Decision::Deny("nobody answered".to_owned()))
            }
            Ok(Err(_gone)) => {
                self.forget(host, port);
                Decision::Deny("whoever decides went away".to_owned())
            }
            Err(_elapsed) => {
                let secs = self.bounds.hold.as_secs();
                Decision::Deny(format!("nobody answered within {secs} s; a later try may pass"))
            }
        }
    }

    /// Joins the question about a host, or asks it. `None` when too many are open.
    fn question(self: &Arc<Self>, host: &str, port: u16, from: Connection) -> Option<Question> {
        let key = (host.to_owned(), port);
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = questions.get(&key) {
            return Some(open.clone());
        }
        if questions.len() >= self.bounds.open_questions {
            // Answers that nobody came back for make room.
            questions.retain(|_, question| question.borrow().is_none());
        }
        if questions.len() >= self.bounds.open_questions {
            return None;
        }
        let (tell, hear) = watch::channel(None);
        let answer = self.decider.decide(host, port, from);
        tokio::spawn(async move {
            let decision = answer.await;
            tell.send_replace(Some(decision));
            // Kept until the last who may come back has heard it or the entry is dropped.
            tell.closed().await;
        });
        questions.insert(key, hear.clone());
        Some(hear)
    }

    fn forget_answered(&self, host: &str, port: u16) {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (host.to_owned(), port);
        if questions.get(&key).is_some_and(|question| question.borrow().is_some()) {
            questions.remove(&key);
        }
    }

    fn forget(&self, host: &str, port: u16) {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        questions.remove(&(host.to_owned(), port));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    /// Answers when told to, and counts how often it was asked.
    #[derive(Default)]
    struct Person {
        asked: AtomicUsize,
        answers: Arc<Notify>,
    }

    impl Decide for Person {
        fn decide(
            &self,
            _: &str,
            _: u16,
            _: Connection,
        ) -> Pin<Box<dyn Future<Output = Decision> + Send>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let answers = Arc::clone(&self.answers);
            Box::pin(async move {
                answers.notified().await;
                Decision::Allow
            })
        }
    }

    fn from() -> Connection {
        let at = |port: u16| ([127, 0, 0, 1], port).into();
        Connection { program: at(1), door: at(2) }
    }

    fn bounds(hold: Duration) -> Bounds {
        Bounds { hold, held_connections: 2, open_questions: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn one_question_stands_for_all_connections_to_one_host() {
        let person = Arc::new(Person::default());
        let gate = Gate::new(Arc::clone(&person) as _, bounds(Duration::from_secs(3_600)));
        let [one, two] = [0, 1].map(|_| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.pass("a.org", 443, from()).await })
        });
        while gate.held.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let third = gate.pass("a.org", 443, from()).await;
        let full = Decision::Deny("too many connections wait for an answer".to_owned());
        assert_eq!(third, full);
        person.answers.notify_one();
        assert_eq!((one.await.unwrap(), two.await.unwrap()), (Decision::Allow, Decision::Allow));
        assert_eq!(person.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_counts_for_the_next_try() {
        let person = Arc::new(Person::default());
        let gate = Gate::new(Arc::clone(&person) as _, bounds(Duration::from_secs(1)));
        assert!(matches!(gate.pass("a.org", 443, from()).await, Decision::Deny(_)));
        let other = Decision::Deny("too many hosts wait for an answer".to_owned());
        assert_eq!(gate.pass("b.org", 443, from()).await, other);
        person.answers.notify_one();
        assert_eq!(gate.pass("a.org", 443, from()).await, Decision::Allow);
        assert_eq!(person.asked.load(Ordering::SeqCst), 1);
        // The answer is used up: the next connection is a new question.
        assert!(matches!(gate.pass("a.org", 443, from()).await, Decision::Deny(_)));
        assert_eq!(person.asked.load(Ordering::SeqCst), 2);
    }
}
