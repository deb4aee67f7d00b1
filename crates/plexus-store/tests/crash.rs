//! A writer process that is killed at random moments, and one whose disk is full.
//!
//! This test runs itself as the other process (`crash writer DIR`, `crash full DIR`), so nothing
//! else has to be built or found. A PostgreSQL database is named in the environment, because its
//! URL holds a password.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a test binary with its own main")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use plexus_core::{ApprovalId, SessionId};
use plexus_store::{
    AppendEvents, ApprovalFilter, ApprovalStatus, Change, CreateRun, CreateSession, DecideApproval,
    JournalPosition, JsonText, NewEvent, OpenApproval, PageRequest, PostgresOptions, Priority,
    ReadLimit, RunKey, SessionFilter, SetJournalPosition, SqliteOptions, SqliteStore, StartChat,
    Store, StoreError, Verdict,
};
use serde_json::json;

use crate::common::{decision, new_run, open_postgres, question, session_with_chat};

/// How often the writer is killed.
const KILLS: u32 = 200;

/// How often it is killed on PostgreSQL, where each start takes several connections.
const POSTGRES_KILLS: u32 = 25;

/// The variable that names the database for the writer.
const DATABASE: &str = "PLEXUS_CRASH_DATABASE";

/// Where the store is.
#[derive(Clone)]
enum Place {
    File(PathBuf),
    Database(String),
}

impl Place {
    async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        Ok(match self {
            Self::File(dir) => Arc::new(open(dir)?),
            Self::Database(url) => Arc::new(open_postgres(&PostgresOptions::new(url)).await?),
        })
    }

    /// The unit of the delays before a kill: a commit over a network takes longer than one to a
    /// file.
    fn pace(&self) -> Duration {
        match self {
            Self::File(_) => Duration::from_micros(1),
            Self::Database(_) => Duration::from_micros(4),
        }
    }

    /// Returns the command of the writer process.
    fn writer(&self) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        match self {
            Self::File(dir) => command.arg("writer").arg(dir),
            Self::Database(url) => command.arg("writer").env(DATABASE, url),
        };
        Ok(command)
    }
}

/// How many writers work at once in the process, so that groups have several lists.
const PRODUCERS: usize = 4;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("writer") => {
            let place = match std::env::var(DATABASE) {
                Ok(url) => Place::Database(url),
                Err(_) => Place::File(PathBuf::from(&args[2])),
            };
            block_on(writer(&place)).expect("the writer works until it is killed");
        }
        Some("full") => block_on(full(Path::new(&args[2]))).expect("a full disk is survived"),
        _ => {
            let full =
                Trial::test("a_full_file_system_is_an_error_and_works_again_with_room", full_disk)
                    .with_ignored_flag(!can_mount());
            let tests = vec![
                Trial::test("everything_acknowledged_survives_200_kills", killed),
                Trial::test(
                    "everything_acknowledged_survives_kills_on_postgres",
                    killed_on_postgres,
                )
                .with_ignored_flag(testkit::postgres::is_missing_and_not_required()),
                full,
            ];
            libtest_mimic::run(&Arguments::from_args(), tests).exit();
        }
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

fn open(dir: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(&SqliteOptions::new(dir))
}

fn event(n: u64) -> NewEvent {
    NewEvent::now(
        "content",
        JsonText::from(json!({ "type": "content", "n": n, "text": "x".repeat(200) })),
    )
}

// The other process.

/// Appends events together with a journal position, opens approvals and decides them, and prints
/// what was acknowledged, until it is killed.
async fn writer(place: &Place) -> anyhow::Result<()> {
    let store = place.open().await?;
    let producers =
        (0..PRODUCERS).map(|n| tokio::spawn(produce_on(store.clone(), format!("producer-{n}"))));
    for producer in futures::future::join_all(producers).await {
        producer??;
    }
    Ok(())
}

/// Produces until killed, and starts again after a conflict: the last commit of the killed writer
/// may still reach the database after its successor has read the position.
async fn produce_on(store: Arc<dyn Store>, name: String) -> anyhow::Result<()> {
    loop {
        let Err(error) = produce(store.clone(), name.clone()).await else { return Ok(()) };
        if !matches!(error.downcast_ref(), Some(StoreError::Conflict { .. })) {
            return Err(error);
        }
    }
}

async fn produce(store: Arc<dyn Store>, name: String) -> anyhow::Result<()> {
    let session = match store.session_named(None, &name).await {
        Ok(session) => session.id,
        Err(StoreError::NotFound { .. }) => {
            let new = CreateSession::new(&name, None);
            let id = new.id;
            let run = CreateRun { expects_n: Some(0), ..new_run(id) };
            let start = Change::StartChat(StartChat::new(id, "go"));
            store
                .commit(
                    vec![Change::CreateSession(new), Change::CreateRun(run), start],
                    Priority::Normal,
                )
                .await?;
            id
        }
        Err(error) => return Err(error.into()),
    };
    let run = RunKey { session, n: 0 };
    let mut at = store.run(run).await?.journal;
    loop {
        let count = at.offset % 3 + 1;
        let to = JournalPosition { segment: 1, offset: at.offset + count };
        let events = (at.offset..to.offset).map(event).collect();
        let list = vec![
            Change::AppendEvents(AppendEvents { session, chat: 0, events }),
            Change::SetJournalPosition(SetJournalPosition { run, expects: at, to }),
        ];
        store.commit(list, Priority::Normal).await?;
        say(&format!("events {session} {}", to.offset))?;
        if at.offset % 4 == 0 {
            let approval = ask(&store, session).await?;
            say(&format!("decided {approval} {}", session))?;
        }
        at = to;
    }
}

async fn ask(store: &Arc<dyn Store>, session: SessionId) -> anyhow::Result<ApprovalId> {
    let id = ApprovalId::generate();
    let open = OpenApproval { id, ..question(session, &id.to_string(), "ls") };
    store.commit(vec![Change::OpenApproval(open)], Priority::Urgent).await?;
    say(&format!("asked {id} {session}"))?;
    let decide = DecideApproval { message: Some("no".into()), ..decision(id, Verdict::Deny) };
    store.commit(vec![Change::DecideApproval(decide)], Priority::Urgent).await?;
    Ok(id)
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

// The one that kills.

/// What the writer has acknowledged so far: for each session its offset, for each approval whether
/// it was decided.
#[derive(Default)]
struct Acknowledged {
    offsets: BTreeMap<SessionId, u64>,
    approvals: BTreeMap<ApprovalId, bool>,
}

impl Acknowledged {
    fn hear(&mut self, line: &str) -> anyhow::Result<()> {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["events", session, offset] => {
                self.offsets.insert(session.parse()?, offset.parse()?);
            }
            ["asked", id, _] => drop(self.approvals.insert(id.parse()?, false)),
            ["decided", id, _] => drop(self.approvals.insert(id.parse()?, true)),
            // The kill may cut the last line in two; then it does not count.
            _ => {}
        }
        Ok(())
    }
}

fn killed() -> Result<(), Failed> {
    let run = || -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        block_on(kill_and_look(&Place::File(dir.path().to_owned()), KILLS))
    };
    run().map_err(|error| Failed::from(format!("{error:?}")))
}

fn killed_on_postgres() -> Result<(), Failed> {
    let cluster = testkit::postgres::own();
    let run =
        || block_on(kill_and_look(&Place::Database(cluster.fresh_database()?), POSTGRES_KILLS));
    run().map_err(|error| Failed::from(format!("{error:?}")))
}

async fn kill_and_look(place: &Place, kills: u32) -> anyhow::Result<()> {
    // Not random: the moments only have to differ, and a failure must be reproducible.
    let moments = (0..kills).map(|n| place.pace() * (n * 7_919 % 30_000));
    let mut acknowledged = Acknowledged::default();
    let mut heard = 0;
    for (n, moment) in moments.enumerate() {
        heard += run_and_kill(place, moment, &mut acknowledged)?;
        let deep = n % 40 == 39;
        look(place, &acknowledged, deep)
            .await
            .map_err(|error| error.context(format!("after kill {}", n + 1)))?;
    }
    anyhow::ensure!(
        heard >= kills as usize,
        "the writer hardly wrote: {heard} lines in {kills} lives"
    );
    println!("{kills} kills, {heard} acknowledgements, all of them there");
    Ok(())
}

fn run_and_kill(
    place: &Place,
    moment: Duration,
    acknowledged: &mut Acknowledged,
) -> anyhow::Result<usize> {
    let mut child = place.writer()?.stdout(Stdio::piped()).spawn()?;
    let mut out = BufReader::new(child.stdout.take().expect("a piped stdout"));
    // The delay starts at the first acknowledgement, so that every writer process writes something,
    // however slow the machine is.
    let mut text = String::new();
    out.read_line(&mut text)?;
    std::thread::sleep(moment);
    child.kill()?;
    child.wait()?;
    out.read_to_string(&mut text)?;
    let lines: Vec<_> =
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).collect();
    for line in &lines {
        acknowledged.hear(line)?;
    }
    Ok(lines.len())
}

/// Opens the store as the next server would, and compares it with what was acknowledged.
async fn look(place: &Place, acknowledged: &Acknowledged, deep: bool) -> anyhow::Result<()> {
    let store = place.open().await?;
    for session in store.sessions(SessionFilter::default(), PageRequest::default()).await?.items {
        let run = store.run(RunKey { session: session.id, n: 0 }).await?;
        let chat = store.chat(session.id, None).await?;
        let said = acknowledged.offsets.get(&session.id).copied().unwrap_or(0);
        anyhow::ensure!(
            run.journal.offset >= said,
            "{}: {said} was acknowledged, {} is there",
            session.name,
            run.journal.offset
        );
        // One event is the start; all others were committed together with the journal's position.
        anyhow::ensure!(
            u64::from(chat.total_events) == run.journal.offset + 1,
            "events and journal are apart: {chat:?} {run:?}"
        );
        let from = chat.total_events.saturating_sub(50);
        let tail = store.read_events(session.id, 0, from, ReadLimit::events(100)).await?;
        for (event, seq) in tail.events.iter().zip(from..) {
            anyhow::ensure!(
                event.seq == seq && (seq == 0 || event.body.to_value()["n"] == json!(seq - 1)),
                "{event:?} at {seq}"
            );
        }
    }
    for (id, decided) in &acknowledged.approvals {
        let status = store.approval(*id).await?.status;
        anyhow::ensure!(
            !decided || status == ApprovalStatus::Denied,
            "{id} was decided and is {status:?}"
        );
    }
    if deep {
        let faults = store.integrity().await?;
        anyhow::ensure!(faults.is_empty(), "{faults:?}");
        let all = store.approvals(ApprovalFilter::default(), PageRequest::first(1000)).await?;
        anyhow::ensure!(
            all.items
                .iter()
                .all(|it| (it.status == ApprovalStatus::Pending) == it.decision.is_none())
        );
    }
    // Mostly dropped without closing, so that the next process sometimes finds a log and sometimes
    // none.
    match place {
        Place::File(dir) if !deep => wait_until_free(store, dir)?,
        Place::File(_) | Place::Database(_) => store.close().await?,
    }
    Ok(())
}

fn wait_until_free(store: Arc<dyn Store>, dir: &Path) -> anyhow::Result<()> {
    drop(store);
    let lock = std::fs::File::open(dir.join("plexus.lock"))?;
    lock.lock()?;
    Ok(())
}

// The full disk.

/// The size of the file system, and how much of it is filled and freed again.
const SIZE: &str = "4m";
const BALLAST_BYTES: usize = 1024 * 1024;

/// Returns whether this machine lets us mount a private file system.
fn can_mount() -> bool {
    let mount = ["-m", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"];
    Command::new("unshare")
        .args(mount)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

fn full_disk() -> Result<(), Failed> {
    let run = || -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        let script = format!(r#"mount -t tmpfs -o size={SIZE} tmpfs "$1" && exec "$0" full "$1""#);
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .arg(std::env::current_exe()?)
            .arg(dir.path())
            .output()?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    run().map_err(|error| Failed::from(format!("{error:?}")))
}

/// Fills the file system, expects a refusal, makes room, and continues.
async fn full(dir: &Path) -> anyhow::Result<()> {
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![0; BALLAST_BYTES])?;
    let store = open(&dir.join("data"))?;
    let session = session_with_chat(&store, "s").await?;
    let append =
        |n| Change::AppendEvents(AppendEvents { session, chat: 0, events: vec![event(n)] });
    for round in 0..2 {
        let error = loop {
            let n = u64::from(store.chat(session, None).await?.total_events);
            match store.commit(vec![append(n); 1], Priority::Normal).await {
                Ok(_) => {}
                Err(error) => break error,
            }
            anyhow::ensure!(n < 100_000, "the file system never filled");
        };
        anyhow::ensure!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        let before = store.chat(session, None).await?.total_events;
        anyhow::ensure!(
            store.commit(vec![append(0)], Priority::Urgent).await.is_err(),
            "still full"
        );
        anyhow::ensure!(
            store.chat(session, None).await?.total_events == before,
            "a refused event is there"
        );
        if round == 0 {
            std::fs::remove_file(&ballast)?;
            store.commit(vec![append(u64::from(before))], Priority::Normal).await?;
            anyhow::ensure!(store.chat(session, None).await?.total_events == before + 1);
        }
    }
    let faults = store.integrity().await?;
    anyhow::ensure!(faults.is_empty(), "{faults:?}");
    Ok(())
}
