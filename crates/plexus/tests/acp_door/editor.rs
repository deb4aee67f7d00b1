//! An editor made of a real client library, driven by the test: commands go in and what happens
//! comes out as JSON lines.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::real_cli::RealCli;
use testkit::wait::PATIENCE;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long an editor that was killed may take to be reaped.
const REAPED: Duration = Duration::from_secs(60);

/// A client library from a registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Library {
    TypeScript,
    Python,
}

impl Library {
    /// Where the library is.
    pub(crate) const fn place(self) -> RealCli {
        let (variable, cached) = match self {
            Self::TypeScript => (
                "PLEXUS_ACP_SDK_TYPESCRIPT",
                ".cache/acp-clients/npm/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js",
            ),
            Self::Python => ("PLEXUS_ACP_SDK_PYTHON", ".cache/acp-clients/python/acp/__init__.py"),
        };
        RealCli {
            variable,
            require_variable: "PLEXUS_REQUIRE_ACP",
            cached,
            script: "scripts/install-acp-clients.sh",
        }
    }

    /// The program that plays an editor with it.
    fn command(self) -> Result<Command> {
        let library = self.place().find().map_err(anyhow::Error::msg)?;
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acp_door");
        Ok(match self {
            Self::TypeScript => {
                let mut command = Command::new(node_beside(&library)?);
                command.arg(scripts.join("client.mjs")).env("ACP_SDK", library);
                command
            }
            Self::Python => {
                let folder = library.parent().and_then(Path::parent).context("no folder")?;
                let mut command = Command::new("python3");
                command.arg(scripts.join("client.py")).env("PYTHONPATH", folder);
                command
            }
        })
    }
}

/// The Node that was installed with a package.
pub(crate) fn node_beside(module: &Path) -> Result<PathBuf> {
    let modules = module.ancestors().find(|path| path.ends_with("node_modules"));
    Ok(modules.context("no node_modules")?.join(".bin/node"))
}

/// A running editor with `plexus acp` below it. Dropping it kills the editor; `plexus acp` then
/// ends by itself.
pub(crate) struct Editor {
    process: Child,
    to: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// Everything that happened.
    pub(crate) heard: Vec<Value>,
    commands: u64,
}

impl Editor {
    /// Starts an editor that has introduced itself.
    pub(crate) async fn start(library: Library, data_dir: &Path, words: &[&str]) -> Result<Self> {
        let mut process = library
            .command()?
            .arg(env!("CARGO_BIN_EXE_plexus"))
            .args(["acp", "--data-dir"])
            .arg(data_dir)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("could not start an editor")?;
        let to = process.stdin.take().context("no stdin")?;
        let lines = BufReader::new(process.stdout.take().context("no stdout")?).lines();
        let mut editor = Self { process, to, lines, heard: Vec::new(), commands: 0 };
        let begun = editor.call("initialize", json!({"version": 1})).await?;
        ensure!(begun["agentInfo"]["name"] == "plexus", "{begun}");
        Ok(editor)
    }

    /// Gives a command; [`Editor::outcome`] has what comes of it.
    pub(crate) async fn begin(&mut self, command: &str, params: Value) -> Result<u64> {
        self.commands += 1;
        let mut line = params;
        line["number"] = self.commands.into();
        line["command"] = command.into();
        self.to.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(self.commands)
    }

    /// Waits for the answer to a command: its result, or its error.
    pub(crate) async fn outcome(&mut self, number: u64) -> Result<Result<Value, Value>> {
        let answer =
            self.until(&format!("the answer to {number}"), |it| it["number"] == number).await?;
        Ok(match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        })
    }

    /// Gives a command that must work, and returns its result.
    pub(crate) async fn call(&mut self, command: &str, params: Value) -> Result<Value> {
        let number = self.begin(command, params).await?;
        self.outcome(number).await?.map_err(|error| anyhow::anyhow!("{command} gave {error}"))
    }

    /// Waits for the question with this number, from 0 on.
    pub(crate) async fn question(&mut self, number: u64) -> Result<Value> {
        self.until(&format!("question {number}"), |it| it["question"] == number).await
    }

    /// Waits until a question was withdrawn.
    pub(crate) async fn withdrawn(&mut self, number: u64) -> Result<()> {
        self.until(&format!("the end of question {number}"), |it| it["withdrawn"] == number)
            .await
            .map(drop)
    }

    /// Answers a question with the option of a kind.
    pub(crate) async fn answer(&mut self, question: &Value, kind: &str) -> Result<()> {
        let options = question["options"].as_array().context("no options")?;
        let option = options.iter().find(|option| option["kind"] == kind);
        let option = &option.with_context(|| format!("no {kind}: {question}"))?["optionId"];
        let params = json!({"question": question["question"], "option": option});
        self.call("answer", params).await.map(drop)
    }

    /// Waits for something that happens, or has happened.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        if let Some(found) = self.heard.iter().find(|it| fits(it)) {
            return Ok(found.clone());
        }
        let search = async {
            while let Some(line) = self.lines.next_line().await? {
                let event: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
                self.heard.push(event.clone());
                if fits(&event) {
                    return Ok(Some(event));
                }
            }
            anyhow::Ok(None)
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(Ok(Some(found))) => Ok(found),
            Ok(Ok(None)) => bail!("the editor ended before {what}: {:#?}", self.heard),
            Ok(Err(error)) => Err(error),
            Err(_) => bail!("{what} did not come: {:#?}", self.heard),
        }
    }

    /// Waits for an update of a kind that fits.
    pub(crate) async fn update(
        &mut self,
        kind: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let found =
            self.until(kind, |it| it["update"]["sessionUpdate"] == kind && fits(&it["update"]));
        Ok(found.await?["update"].clone())
    }

    /// Returns the texts of all chunks of a kind, joined.
    pub(crate) fn text(&self, kind: &str) -> String {
        let chunks = self.heard.iter().filter(|it| it["update"]["sessionUpdate"] == kind);
        chunks.filter_map(|it| it["update"]["content"]["text"].as_str()).collect()
    }

    /// Kills the editor with `SIGKILL`.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.process.start_kill()?;
        tokio::time::timeout(REAPED, self.process.wait()).await??;
        Ok(())
    }
}
