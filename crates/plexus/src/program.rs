//! The program: which command runs, and in which kind of process.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use plexus_cli::args::Global;
use plexus_cli::exit;
use plexus_render::error::complain;
use plexus_server::PlexusBuilder;

/// Supervise coding agents: you, a program or another agent answers what they ask.
#[derive(Parser, Debug)]
#[command(name = "plexus", version, arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    #[command(flatten)]
    Client(plexus_cli::args::Command),
    #[command(flatten)]
    Server(plexus_server::command::Command),
    /// Play a Claude Code CLI from a script, without a model.
    #[command(disable_help_flag = true)]
    Sim {
        /// The CLI's own flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    main_with(|builder| builder)
}

/// Runs the program with additions to the server of `plexus serve`, such as activations: a program
/// of this one call has every command of `plexus`.
#[must_use]
pub fn main_with(customize: impl FnOnce(PlexusBuilder) -> PlexusBuilder) -> ExitCode {
    let mut args = std::env::args_os().peekable();
    if args.peek().is_some_and(|name| plexus_confine::is_shell(name)) {
        return ExitCode::from(plexus_confine::shell_main(args));
    }
    args.next();
    // A shim holds one child for hours: it starts before anything else exists in this process, no
    // runtime, no thread, no parser of arguments.
    match args.next() {
        Some(word) if word == "shim" => ExitCode::from(plexus_shim::run(args)),
        // A stage becomes the confined program: user namespaces and Landlock want one thread.
        Some(word) if word == "confine" && args.next_if(|next| next == "--stage").is_some() => {
            ExitCode::from(plexus_confine::main(args))
        }
        // The egress process, which starts whenever a stage does.
        Some(word) if word == "confine" && args.peek().is_some_and(plexus_server::is_egress) => {
            ExitCode::from(plexus_server::egress(args))
        }
        Some(word) if word == "cone" => cone(args),
        Some(word) if word == "sim" => plexus_sim::main_with_args(args),
        Some(_) | None => command_line(customize),
    }
}

fn cone(args: impl Iterator<Item = OsString>) -> ExitCode {
    match plexus_agents::cone::main(args) {
        Ok(()) => ExitCode::from(exit::OK),
        Err(error) => {
            complain(&error.to_string());
            let is_usage = matches!(error, plexus_agents::cone::ConeError::NoFile);
            ExitCode::from(if is_usage { exit::USAGE } else { exit::FAILED })
        }
    }
}

fn command_line(customize: impl FnOnce(PlexusBuilder) -> PlexusBuilder) -> ExitCode {
    // A shell asks for completions in a variable, and ends here.
    clap_complete::CompleteEnv::with_factory(Arguments::command).complete();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            // A stderr that is closed cannot show the error; the exit code still does.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(arguments, customize)));
    match outcome {
        Ok(code) => ExitCode::from(code),
        // The reader of the output has seen enough: `plexus logs | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(exit::OK),
        Err(error) => {
            complain(&format!("plexus: {error:#}"));
            ExitCode::from(exit::FAILED)
        }
    }
}

async fn run(
    arguments: Arguments,
    customize: impl FnOnce(PlexusBuilder) -> PlexusBuilder,
) -> anyhow::Result<u8> {
    let global = &arguments.global;
    match arguments.command {
        Command::Client(command) => plexus_cli::run(global, command, Arguments::command()).await,
        Command::Server(command) => command.run(|| global.data_dir(), customize).await,
        Command::Sim { .. } => {
            anyhow::bail!("could not play the simulator: `sim` must be the first argument")
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
