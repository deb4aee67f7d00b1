//! How a run begins, and what environment the child finds.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use plexus_shim::layout::{DIR_MODE, ExitFile, FILE_MODE, InboxSeq, process_identity};
use plexus_shim::{EXIT_NOT_STARTED, EXIT_USAGE};

use crate::harness::{Shim, wait_for, without_stdin};

#[test]
fn pid_json_names_both_processes() {
    let mut shim = Shim::start("cat");
    let pid = shim.pid();
    assert_eq!(u32::try_from(pid.shim_pid).unwrap(), shim.process.id());
    assert_eq!(Some(pid.shim_start), process_identity(pid.shim_pid));
    assert_eq!(Some(pid.child_start), process_identity(pid.child_pid));
    assert_eq!(pid.child_pgid, pid.child_pid);
    shim.run.put_close().unwrap();
    shim.end();
    assert!(!pid.shim_lives() && !pid.child_lives());
}

#[test]
fn the_shim_leaves_the_servers_surroundings() {
    let mut prepared = Shim::prepare("cat", |_| {});
    prepared.command.stderr(Stdio::piped());
    // As the leader of a process group, it needs one more step to get a session of its own.
    std::os::unix::process::CommandExt::process_group(&mut prepared.command, 0);
    let mut shim = prepared.start();
    let pid = shim.pid();
    let proc = Path::new("/proc").join(pid.shim_pid.to_string());
    wait_for("a working directory of its own", || {
        (std::fs::read_link(proc.join("cwd")).ok()? == Path::new("/")).then_some(())
    });
    for descriptor in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(
            std::fs::read_link(proc.join(descriptor)).unwrap(),
            Path::new("/dev/null"),
            "{descriptor}"
        );
    }
    let (group, session) = group_and_session(pid.shim_pid);
    assert_eq!(group, pid.shim_pid);
    // Where our own group has no number, the shim cannot join it and keeps a group of its own.
    let (our_group, _) = group_and_session(rustix::process::getpid().as_raw_pid());
    assert!(session == pid.shim_pid || our_group == 0, "session {session}, our group {our_group}");
    shim.run.put_close().unwrap();
    shim.end();
}

/// Returns fields 5 and 6 of `/proc/PID/stat`, counted from the last parenthesis.
fn group_and_session(pid: i32) -> (i32, i32) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    (fields[2].parse().unwrap(), fields[3].parse().unwrap())
}

#[test]
fn a_shim_starts_where_the_session_of_its_server_has_no_number() {
    // Like a container that is entered from outside: the kernel reports session and group of the
    // entering process as 0. `-m` gives the shim a group of its own, as a server does.
    const SCRIPT: &str = r#"set -m; "$@" & wait"#;
    let namespace = || {
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--pid", "--fork", "--mount-proc"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        unshare
    };
    if !namespace().arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!(
            "SKIPPED a_shim_starts_where_the_session_of_its_server_has_no_number: this user may \
             not make a pid namespace"
        );
        return;
    }
    let prepared = Shim::prepare("exit 3", without_stdin);
    let shim = std::iter::once(prepared.command.get_program()).chain(prepared.command.get_args());
    namespace().args(["sh", "-c", SCRIPT, "sh"]).args(shim).status().unwrap();
    let exit = prepared.run.read_exit().unwrap().expect("the shim came to its end");
    assert_eq!((exit.code, exit.reason), (Some(3), None));
}

#[test]
fn the_child_gets_what_the_shim_got_and_no_more() {
    let script =
        "echo \"$SECRET\"; pwd; umask; grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd";
    let mut prepared = Shim::prepare(script, |_| {});
    let temp = prepared.temp.path().to_path_buf();
    prepared.command.env("SECRET", "kept").current_dir(&temp);
    // The same without a shim. The shim never passes on as ignored a signal that it handles, but
    // the runner of this test may: a background job of a script ignores SIGINT, one under `nohup`
    // SIGHUP.
    let mut direct = Command::new("env");
    direct
        .args(["--default-signal=HUP,INT,TERM,CHLD", "sh", "-c", script])
        .env("SECRET", "kept")
        .current_dir(&temp)
        .stdin(Stdio::piped());
    let direct = String::from_utf8(direct.output().unwrap().stdout).unwrap();
    let mut shim = prepared.start();
    shim.end();
    assert!(direct.starts_with("kept\n"));
    assert_eq!(shim.journal(), direct);
}

#[test]
fn everything_is_private_whatever_the_umask() {
    let mut prepared = Shim::prepare("cat", |options| options.segment_bytes = 1);
    let args: Vec<_> = prepared.command.get_args().map(ToOwned::to_owned).collect();
    let program = prepared.command.get_program().to_owned();
    prepared.command = Command::new("sh");
    prepared.command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(program).args(args);
    let mut shim = prepared.start();
    drop(shim.pid());
    for number in 1..=3 {
        shim.run.put_inbox(InboxSeq(number), b"{}").unwrap();
    }
    shim.run.put_close().unwrap();
    shim.end();
    let mut files = 0;
    for dir in [shim.run.path(), &shim.run.journal(), &shim.run.inbox()] {
        assert_eq!(
            std::fs::metadata(dir).unwrap().permissions().mode() & 0o7777,
            DIR_MODE,
            "{}",
            dir.display()
        );
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let metadata = entry.metadata().unwrap();
            if metadata.is_file() {
                files += 1;
                assert_eq!(
                    metadata.permissions().mode() & 0o7777,
                    FILE_MODE,
                    "{}",
                    entry.path().display()
                );
            }
        }
    }
    // Three segments, the last message sent, pid.json, exit.json and the lease.
    assert_eq!(files, 7);
}

#[test]
fn a_program_that_cannot_be_started_is_told() {
    let mut shim =
        Shim::start_with("", |options| options.program = "no-such-program-of-ours".into());
    let exit = shim.end();
    assert_eq!((exit.code, exit.signal), (None, None));
    let reason = exit.reason.unwrap();
    assert!(reason.starts_with("could not start no-such-program-of-ours: "), "{reason}");
    assert_eq!(shim.process.wait().unwrap().code(), Some(EXIT_NOT_STARTED.into()));
    assert_eq!(shim.run.read_pid().unwrap(), None);
}

#[test]
fn a_directory_that_was_used_is_left_as_it_is() {
    let prepared = Shim::prepare("echo again", |_| {});
    let before = ExitFile { code: Some(3), ..ExitFile::without_status("before") };
    prepared.run.write_exit(&before).unwrap();
    let mut shim = prepared.start();
    assert_eq!(shim.end(), before);
    assert_eq!(shim.process.wait().unwrap().code(), Some(EXIT_NOT_STARTED.into()));
    assert_eq!(shim.journal(), "");
}

#[test]
fn a_shim_that_was_given_up_starts_nothing() {
    let mut prepared = Shim::prepare("echo started > ../proof", |_| {});
    let proof = prepared.temp.path().join("proof");
    prepared.command.current_dir(prepared.run.path());
    std::fs::remove_dir_all(prepared.run.journal()).unwrap();
    let mut shim = prepared.start();
    let status = wait_for("the end of the shim", || shim.process.try_wait().unwrap());
    assert_eq!(status.code(), Some(EXIT_NOT_STARTED.into()));
    assert!(!proof.exists(), "the child ran");
    assert_eq!(shim.run.read_exit().unwrap(), None, "nobody reads it there");
    assert!(!shim.run.journal().exists(), "what was removed came back");
}

#[test]
fn a_command_line_that_is_not_understood_touches_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_plexus-shim"))
        .args(["--dir", "", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(EXIT_USAGE.into()));
    assert!(String::from_utf8(output.stderr).unwrap().contains("usage: plexus shim --dir RUN_DIR"));
}
