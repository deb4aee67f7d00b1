//! The temporary PostgreSQL of the tests. Its case is ignored where PostgreSQL is not installed,
//! and does not exist on systems other than Linux.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

use std::process::ExitCode;

use testkit::cases::Cases;

fn main() -> ExitCode {
    let cases = Cases::new();
    #[cfg(target_os = "linux")]
    let cases = cases
        .with_postgres()
        .case("commits_survive_a_kill_and_nothing_survives_the_drop", kill_and_drop);
    cases.run()
}

#[cfg(target_os = "linux")]
async fn kill_and_drop() {
    use testkit::{postgres, process, wait};

    let mut postgres = postgres::own();
    let url = postgres.fresh_database().unwrap();
    assert_eq!(
        url,
        format!("postgres://plexus:{}@{}/plexus_0", postgres.password(), postgres.address())
    );
    postgres.sql("plexus_0", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").unwrap();
    postgres.crash_and_restart().unwrap();
    assert_eq!(postgres.sql("plexus_0", "SELECT n FROM kept").unwrap(), "7");
    assert_eq!(postgres.sql("postgres", "SHOW fsync").unwrap(), "on");

    let folder = postgres.folder().to_owned();
    drop(postgres);
    testkit::eventually("the end of the folder", wait::PATIENCE, || {
        (!folder.exists()).then_some(())
    });
    process::assert_none_marked(&folder.display().to_string(), wait::PATIENCE);
}
