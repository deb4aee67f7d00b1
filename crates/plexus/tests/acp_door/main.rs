//! `plexus acp` with real clients from the registries: the TypeScript and the Python library, each
//! with the simulator and with the real CLIs of Claude Code and Codex behind the door, and acpx.
//!
//! Where a client, a CLI or a network namespace cannot be had, its cases are ignored and the
//! reason is printed. What needs no client is in `tests/program/acp.rs`.

#[cfg(target_os = "linux")]
mod acpx;
#[cfg(target_os = "linux")]
mod editor;
#[cfg(target_os = "linux")]
mod server_with_agent;
#[cfg(target_os = "linux")]
mod stories;

/// Adds every story for a library, with the simulator and with the real CLIs.
#[cfg(target_os = "linux")]
macro_rules! stories {
    ($suite:expr, $library:expr, $name:literal, $($story:ident,)*) => {{
        let suite = $suite.with($library.place());
        let suite = suite$(.case(
            concat!($name, "::simulator::", stringify!($story)),
            |_library| async { stories::$story(server_with_agent::ServerWithAgent::simulated().await?, $library).await },
        ))*;
        // Without the library there is no client to test the real CLIs with.
        match $library.place().find() {
            Err(_) => suite,
            Ok(_) => suite.with(testkit::real_claude::CLI)$(.case(
                concat!($name, "::claude::", stringify!($story)),
                |cli| async { stories::$story(server_with_agent::ServerWithAgent::claude(cli).await?, $library).await },
            ))*
            .with(testkit::real_codex::CLI)$(.case(
                concat!($name, "::codex::", stringify!($story)),
                |cli| async { stories::$story(server_with_agent::ServerWithAgent::codex(cli).await?, $library).await },
            ))*,
        }
    }};
}

#[cfg(target_os = "linux")]
macro_rules! all_stories {
    ($suite:expr, $library:expr, $name:literal) => {
        stories!(
            $suite,
            $library,
            $name,
            a_call_is_drawn_as_a_diff_and_allowed_in_the_editor,
            a_dialog_closes_when_somebody_else_has_answered,
            a_cancelled_prompt_runs_nothing,
            a_session_outlives_a_killed_editor,
            a_prompt_outlives_a_killed_server,
            a_question_of_a_session_below_is_a_dialog_too,
        )
    };
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use editor::Library;

    let suite = testkit::real_cli::suite::Suite::of(acpx::ACPX)
        .case("acpx_draws_a_call_and_decides_it", acpx::acpx_draws_a_call_and_decides_it)
        .case(
            "acpx_goes_on_with_a_session_after_the_server_was_killed",
            acpx::acpx_goes_on_with_a_session_after_the_server_was_killed,
        );
    let suite = all_stories!(suite, Library::TypeScript, "typescript");
    all_stories!(suite, Library::Python, "python").run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
