//! How a SQLite store treats files: it refuses those that are not its own, keeps a second server
//! out, and is durable.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plexus_core::SessionId;
use plexus_store::{
    AppendEvents, Change, CreateSession, Cursor, Durability, JsonText, NewEvent, PageRequest,
    Priority, ReadLimit, SessionFilter, SetCursor, SqliteOptions, SqliteStore, Store, StoreError,
};
use rusqlite::Connection;
use serde_json::json;

use crate::common::session_with_chat;

type Test = anyhow::Result<()>;

fn open(dir: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(&SqliteOptions::new(dir))
}

async fn filled(store: &dyn Store) -> anyhow::Result<SessionId> {
    let session = session_with_chat(store, "s").await?;
    store.commit(vec![content(session, "x")], Priority::Normal).await?;
    Ok(session)
}

fn content(session: SessionId, text: &str) -> Change {
    let body = JsonText::from(json!({ "type": "content", "text": text }));
    Change::AppendEvents(AppendEvents {
        session,
        chat: 0,
        events: vec![NewEvent::now("content", body)],
    })
}

/// Returns everything in the directory but the lock, byte for byte.
fn contents(dir: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "plexus.lock" {
            all.push((name, std::fs::read(entry.path())?));
        }
    }
    all.sort();
    Ok(all)
}

/// A commit of a few bytes writes pages of several tables and indexes.
#[tokio::test]
async fn many_small_commits_do_not_let_the_log_grow() -> Test {
    const SMALL_COMMITS: usize = 4_000;
    /// The log is started over at 64 MiB at the latest.
    const MAX_LOG_BYTES: u64 = 72 * 1024 * 1024;
    let dir = tempfile::tempdir()?;
    let options = SqliteOptions { sync: Durability::Normal, ..SqliteOptions::new(dir.path()) };
    let store = SqliteStore::open(&options)?;
    let mut longest = 0;
    for number in 0..SMALL_COMMITS {
        let new = CreateSession::new(format!("s{number}"), None);
        store.commit(vec![Change::CreateSession(new)], Priority::Normal).await?;
        let length = std::fs::metadata(dir.path().join("plexus.db-wal"))?.len();
        longest = longest.max(length);
    }
    assert!(longest <= MAX_LOG_BYTES, "the log had {longest} bytes");
    store.close().await?;
    Ok(())
}

#[tokio::test]
async fn committed_changes_are_there_after_reopening() -> Test {
    let dir = tempfile::tempdir()?;
    let store = open(dir.path())?;
    let session = filled(&store).await?;
    let cursor = Cursor { session, chat: 0, next: 1 };
    store
        .commit(
            vec![Change::SetCursor(SetCursor { consumer: "c".into(), cursor })],
            Priority::Normal,
        )
        .await?;
    let (before, newest) = (store.session(session).await?, store.newest_commit().await?);
    store.close().await?;
    assert!(!dir.path().join("plexus.db-wal").exists(), "a closed store is one file");
    let store = open(dir.path())?;
    assert_eq!(store.session(session).await?, before);
    assert_eq!(store.consumer(session, "c").await?.map(|it| it.cursor), Some(cursor));
    assert_eq!(store.read_from(cursor, ReadLimit::events(9)).await?.events.len(), 1);
    let next = store.commit(vec![content(session, "y")], Priority::Normal).await?;
    assert_eq!(next.commit, newest + 1, "numbers go on where they were");
    Ok(())
}

#[tokio::test]
async fn only_the_owner_can_read_its_files() -> Test {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let store = open(&data)?;
    filled(&store).await?;
    for (path, mode) in
        [("", 0o700), ("plexus.db", 0o600), ("plexus.db-wal", 0o600), ("plexus.lock", 0o600)]
    {
        assert_eq!(
            std::fs::metadata(data.join(path))?.permissions().mode() & 0o777,
            mode,
            "{path}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_second_server_is_kept_out_and_told_who_holds_the_lock() -> Test {
    let dir = tempfile::tempdir()?;
    let store = open(dir.path())?;
    let Err(StoreError::Locked { holder }) = open(dir.path()) else {
        panic!("two stores in one directory")
    };
    assert!(holder.contains(&std::process::id().to_string()), "{holder}");
    store.close().await?;
    open(dir.path())?.close().await?;
    Ok(())
}

#[tokio::test]
async fn a_newer_file_is_refused_untouched() -> Test {
    let dir = tempfile::tempdir()?;
    open(dir.path())?.close().await?;
    Connection::open(dir.path().join("plexus.db"))?.execute_batch("PRAGMA user_version = 99")?;
    let before = contents(dir.path())?;
    let result = open(dir.path());
    assert!(matches!(result, Err(StoreError::Newer { found: 99, .. })), "{result:?}");
    assert_eq!(contents(dir.path())?, before);
    Ok(())
}

#[tokio::test]
async fn a_newer_version_that_is_only_in_the_log_is_refused_too() -> Test {
    let dir = tempfile::tempdir()?;
    open(dir.path())?.close().await?;
    let other = tempfile::tempdir()?;
    {
        // The state that a newer server leaves when it is killed right after its migration.
        let newer = Connection::open(dir.path().join("plexus.db"))?;
        newer.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA user_version = 99")?;
        for name in ["plexus.db", "plexus.db-wal"] {
            std::fs::copy(dir.path().join(name), other.path().join(name))?;
        }
    }
    let before = contents(other.path())?;
    let result = open(other.path());
    assert!(matches!(result, Err(StoreError::Newer { found: 99, .. })), "{result:?}");
    let after: Vec<_> =
        contents(other.path())?.into_iter().filter(|(name, _)| !name.ends_with("-shm")).collect();
    assert_eq!(after, before, "neither the file nor its log changed");
    Ok(())
}

#[tokio::test]
async fn foreign_and_damaged_files_are_refused_untouched() -> Test {
    let foreign_database = |path: &Path| -> Test {
        Connection::open(path)?
            .execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)")?;
        Ok(())
    };
    let cut_off = |path: &Path| -> Test {
        let bytes = std::fs::read(path)?;
        std::fs::write(path, &bytes[..bytes.len() / 2])?;
        Ok(())
    };
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("plexus.db");
    for (what, expected) in
        [("text", "Foreign"), ("database", "Foreign"), ("short", "Corrupt"), ("cut", "Corrupt")]
    {
        std::fs::remove_file(&path).ok();
        match what {
            "text" => std::fs::write(&path, "dear diary, ".repeat(50))?,
            "database" => foreign_database(&path)?,
            "short" => std::fs::write(&path, b"SQLite format 3\0 and then nothing")?,
            _ => {
                open(dir.path())?.close().await?;
                cut_off(&path)?;
            }
        }
        let before = contents(dir.path())?;
        let Err(error) = open(dir.path()) else { panic!("{what} was opened") };
        assert!(format!("{error:?}").starts_with(expected), "{what}: {error:?}");
        assert_eq!(contents(dir.path())?, before, "{what}");
    }
    Ok(())
}

#[tokio::test]
async fn damage_inside_is_found_and_reported() -> Test {
    let dir = tempfile::tempdir()?;
    let store = open(dir.path())?;
    let session = filled(&store).await?;
    for _ in 0..5 {
        store.commit(vec![content(session, "x")], Priority::Normal).await?;
    }
    assert_eq!(store.integrity().await?, Vec::<String>::new());
    store.close().await?;
    let path = dir.path().join("plexus.db");
    Connection::open(&path)?.execute_batch("DELETE FROM chat_events WHERE id & 4294967295 = 3")?;
    let store = open(dir.path())?;
    let faults = store.integrity().await?;
    assert!(faults.iter().any(|fault| fault.contains("gap")), "{faults:?}");
    store.close().await?;
    // Overwrites bytes in the middle of the file.
    let mut bytes = std::fs::read(&path)?;
    let from = bytes.len() / 4096 / 2 * 4096;
    bytes[from..].fill(0xaa);
    std::fs::write(&path, bytes)?;
    let store = open(dir.path());
    let told = match store {
        Err(StoreError::Corrupt { .. }) => true,
        Err(other) => panic!("{other:?}"),
        Ok(store) => match store.integrity().await {
            Ok(faults) => !faults.is_empty(),
            Err(error) => matches!(error, StoreError::Corrupt { .. }),
        },
    };
    assert!(told);
    Ok(())
}

#[tokio::test]
async fn a_backup_made_while_others_write_is_a_whole_store() -> Test {
    let dir = tempfile::tempdir()?;
    let store = std::sync::Arc::new(open(dir.path())?);
    let session = filled(store.as_ref()).await?;
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 0..200 {
                store.commit(vec![content(session, &n.to_string())], Priority::Normal).await?;
            }
            Ok::<_, StoreError>(())
        }
    });
    let copy = tempfile::tempdir()?;
    let path = copy.path().join("plexus.db");
    let acknowledged = store.chat(session, None).await?.total_events;
    store.backup_to(&path).await?;
    assert!(
        matches!(store.backup_to(&path).await, Err(StoreError::Invalid { .. })),
        "a backup overwrites nothing"
    );
    writer.await??;
    let restored = open(copy.path())?;
    assert_eq!(restored.integrity().await?, Vec::<String>::new());
    let total = restored.chat(session, None).await?.total_events;
    assert!(total >= acknowledged, "{total} of {acknowledged}");
    assert!(!copy.path().join("plexus.db.partial").exists());
    Ok(())
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_nothing_is_lost() -> Test {
    let dir = tempfile::tempdir()?;
    let store = SqliteStore::open(&SqliteOptions {
        max_pages: Some(120),
        ..SqliteOptions::new(dir.path())
    })?;
    let session = filled(&store).await?;
    let large = "x".repeat(20_000);
    let mut acknowledged = 2;
    let error = loop {
        match store.commit(vec![content(session, &large)], Priority::Normal).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1_000, "the disk never filled");
    };
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert_eq!(plexus_core::CallError::from(error).kind, plexus_core::ErrorKind::Unavailable);
    assert_eq!(store.chat(session, None).await?.total_events, acknowledged);
    assert_eq!(store.integrity().await?, Vec::<String>::new());
    // Closing needs no new page and still works; with room, all writes do.
    store.close().await?;
    let store = open(dir.path())?;
    store.commit(vec![content(session, &large)], Priority::Normal).await?;
    let page = store.read_events(session, 0, 0, ReadLimit::events(1000)).await?;
    assert_eq!(
        page.events.iter().map(|it| it.seq).collect::<Vec<_>>(),
        (0..=acknowledged).collect::<Vec<_>>()
    );
    assert_eq!(
        store.sessions(SessionFilter::default(), PageRequest::default()).await?.items.len(),
        1
    );
    Ok(())
}

#[tokio::test]
async fn dropping_a_store_still_writes_what_it_accepted() -> Test {
    let dir = tempfile::tempdir()?;
    let store = open(dir.path())?;
    let session = filled(&store).await?;
    let lists: Vec<_> = (0..20)
        .map(|n| store.commit(vec![content(session, &n.to_string())], Priority::Normal))
        .collect();
    // One poll puts each list into the queue; then all callers are dropped.
    let mut lists = Box::pin(futures::future::join_all(lists));
    assert!(futures::poll!(&mut lists).is_pending());
    drop(lists);
    drop(store);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let store = loop {
        match open(dir.path()) {
            Ok(store) => break store,
            Err(StoreError::Locked { .. }) if std::time::Instant::now() < deadline => {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            Err(error) => anyhow::bail!("the lock was not released: {error}"),
        }
    };
    assert_eq!(store.chat(session, None).await?.total_events, 22);
    Ok(())
}

#[tokio::test]
async fn a_full_queue_is_busy_and_says_when_to_come_back() -> Test {
    use plexus_store::limits::{MAX_EVENT_BYTES, MAX_QUEUE_BYTES};
    let dir = tempfile::tempdir()?;
    let store = open(dir.path())?;
    let session = filled(&store).await?;
    // More bytes than the queue takes, offered at once: some are refused with a time to retry, and
    // none is lost. A writer that is faster than this test refuses none.
    let large = "x".repeat(MAX_EVENT_BYTES - 1_000);
    let began = std::time::Instant::now();
    let mut stored = 0;
    loop {
        let lists = (0..MAX_QUEUE_BYTES / MAX_EVENT_BYTES + 4)
            .map(|_| store.commit(vec![content(session, &large)], Priority::Normal));
        let results = futures::future::join_all(lists).await;
        stored += results.iter().filter(|it| it.is_ok()).count();
        if results.iter().any(
            |it| matches!(it, Err(StoreError::Busy { retry_after, .. }) if !retry_after.is_zero()),
        ) {
            break;
        }
        assert!(began.elapsed() < testkit::wait::PATIENCE, "nothing was refused");
    }
    assert_eq!(store.chat(session, None).await?.total_events as usize, 2 + stored);
    Ok(())
}

/// Returns a change that is accepted as long as the store accepts anything.
fn another() -> Vec<Change> {
    vec![Change::CreateSession(plexus_store::CreateSession::new(
        SessionId::generate().to_string(),
        None,
    ))]
}

#[tokio::test]
async fn nothing_is_acknowledged_once_the_files_are_gone_or_replaced() -> Test {
    type Loss = fn(&Path) -> std::io::Result<()>;
    let losses: [(&str, Loss); 5] = [
        ("the directory deleted", |dir| std::fs::remove_dir_all(dir)),
        ("the directory moved", |dir| std::fs::rename(dir, dir.with_extension("moved"))),
        ("the database deleted", |dir| std::fs::remove_file(dir.join("plexus.db"))),
        ("its log deleted", |dir| std::fs::remove_file(dir.join("plexus.db-wal"))),
        ("the database replaced", |dir| {
            std::fs::copy(dir.join("plexus.db"), dir.join("copy"))?;
            std::fs::rename(dir.join("copy"), dir.join("plexus.db"))
        }),
    ];
    for (what, lose) in losses {
        let folder = tempfile::tempdir()?;
        let dir = folder.path().join("data");
        let store = open(&dir)?;
        store.commit(another(), Priority::Normal).await?;
        assert!(store.newest_commit().await.is_ok(), "{what}: too early");
        lose(&dir)?;
        let answer = store.commit(another(), Priority::Normal).await;
        assert!(answer.as_ref().is_err_and(StoreError::is_fatal), "{what}: {answer:?}");
        let health = store.newest_commit().await;
        assert!(health.as_ref().is_err_and(StoreError::is_fatal), "{what}: {health:?}");
    }
    Ok(())
}

#[tokio::test]
async fn lost_files_are_noticed_without_a_write() -> Test {
    let folder = tempfile::tempdir()?;
    let dir = folder.path().join("data");
    let store = open(&dir)?;
    std::fs::remove_dir_all(&dir)?;
    assert!(store.newest_commit().await.is_err_and(|error| error.is_fatal()));
    Ok(())
}
