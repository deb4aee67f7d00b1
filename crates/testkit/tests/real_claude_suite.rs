//! Suites that need the real CLI: their report without it, and the network that they run in.
//!
//! This program tests itself: with [`INNER`] set, it is a suite of two cases; otherwise it starts
//! itself with [`INNER`] and checks the output.

#![cfg_attr(
    target_os = "linux",
    expect(clippy::unwrap_used, reason = "a failed test is allowed to stop loudly")
)]

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::process::{Command, ExitCode, Output};

    use libtest_mimic::{Arguments, Failed, Trial};
    use testkit::netns;
    use testkit::real_claude::CLI;
    use testkit::real_claude::suite::Suite;

    /// Makes this program act as the suite instead of testing it.
    const INNER: &str = "TESTKIT_INNER_SUITE";

    pub(super) fn main() -> ExitCode {
        if std::env::var_os(INNER).is_some() {
            return inner();
        }
        let trials = vec![
            Trial::test("without_the_cli_cases_are_ignored_and_the_reason_is_told", ignored),
            Trial::test("a_required_cli_that_is_missing_is_a_failure", required),
            Trial::test("with_a_cli_the_cases_run_in_a_network_of_loopback_only", isolated),
        ];
        libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
    }

    /// Runs the suite. Any existing program serves as the CLI: these cases do not start it.
    fn inner() -> ExitCode {
        Suite::new()
            .case("loopback_works", async |_| {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                TcpStream::connect(listener.local_addr()?)?;
                Ok(())
            })
            .case("nothing_else_can_be_reached", async |_| {
                // An address of the documentation range: no packet is sent, the call only shows
                // whether there is a route.
                let reached = UdpSocket::bind("0.0.0.0:0")?.connect("192.0.2.1:9");
                anyhow::ensure!(reached.is_err(), "there is a route out");
                Ok(())
            })
            .run()
    }

    fn run_inner(cli: &str, required: &str) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .env(INNER, "1")
            .env(CLI.variable, cli)
            .env(CLI.require_variable, required)
            .output()
            .unwrap()
    }

    fn ignored() -> Result<(), Failed> {
        let output = run_inner("/no/such/claude", "0");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{stdout}");
        assert!(stdout.contains("2 ignored") && stdout.contains("0 passed"), "{stdout}");
        assert!(stderr.contains("/no/such/claude"), "{stderr}");
        Ok(())
    }

    fn required() -> Result<(), Failed> {
        let output = run_inner("/no/such/claude", "1");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{stdout}");
        assert!(stdout.contains("1 failed"), "{stdout}");
        Ok(())
    }

    fn isolated() -> Result<(), Failed> {
        let output = run_inner("/bin/sh", "0");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{stdout}\n{stderr}");
        // Where no namespace can be made, the output must say so; anywhere else both cases must
        // have run.
        assert!(
            stdout.contains("2 passed") || stderr.contains("no network namespace"),
            "{stdout}\n{stderr}"
        );
        assert!(!netns::is_inside(), "only the suite moves, not whoever starts it");
        Ok(())
    }
}
