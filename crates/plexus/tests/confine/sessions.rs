//! Whole servers on machines that cannot build a wall: a session that asked for one does not start
//! and says why, nothing runs without it, and a session that did not ask says once that it has
//! none. Simulated agents play the children.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::{PATIENCE, eventually_async};

use crate::without::WORD;
use crate::{HomeWithProject, PLEXUS};

/// What each simulated agent does: a command that leaves a file.
const PROMPT: &str = "sim:\ntool Bash {\"command\":\"echo ran >> ran\"}\nsay done";

/// A server whose data outlives it, so that the next one finds its sessions.
struct Site<'a> {
    server: TestServer,
    place: &'a HomeWithProject,
}

/// How a chat ended, and what its reader saw.
struct Ended {
    status: String,
    events: Vec<Value>,
}

impl Ended {
    fn messages(&self) -> Vec<&str> {
        self.events.iter().filter_map(|event| event["event"]["message"].as_str()).collect()
    }
}

impl<'a> Site<'a> {
    async fn start(
        place: &'a HomeWithProject,
        launcher: Vec<OsString>,
        sets: &[&str],
    ) -> Result<Self> {
        Self::start_with(place, launcher, sets, &[]).await
    }

    async fn start_with(
        place: &'a HomeWithProject,
        launcher: Vec<OsString>,
        sets: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let home = place.dir.path().display().to_string();
        let variables = [&[("HOME", home.as_str())], variables].concat();
        let env = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let folder = place.dir.path().join("server");
        std::fs::create_dir_all(&folder)?;
        let sets = sets.iter().flat_map(|set| ["--set".into(), set.into()]);
        let options = ServerOptions {
            plexus_bin: Some(PLEXUS.into()),
            claude_bin: Some("sim".into()),
            folder: Some(folder),
            launcher,
            wall: true,
            arguments: sets.chain(["--set".into(), "warm.max=0".into()]).collect(),
            env: env.collect(),
            ..ServerOptions::default()
        };
        Ok(Self { server: TestServer::with(options).await?, place })
    }

    fn work(&self) -> Result<PathBuf> {
        Ok(self.place.dir.path().join("project").canonicalize()?)
    }

    async fn create(&self, name: &str, confine: Option<&str>) -> Result<Value> {
        let mut params = json!({"name": name, "working_dir": self.work()?});
        if let Some(confine) = confine {
            params["confine"] = json!(confine);
        }
        Ok(self.server.call("agents.create", params).await?["id"].clone())
    }

    /// Checks that a session that asks for a wall is refused, with the reason and the next step.
    async fn refuses(&self, why: &str) -> Result<()> {
        for profile in ["workspace", "strict"] {
            let refused = self.create(profile, Some(profile)).await.err().context("it was made")?;
            let refused = refused.to_string();
            ensure!(refused.contains(why) && refused.contains("next: "), "{refused}");
        }
        Ok(())
    }

    async fn wall(&self, session: &Value) -> Result<Value> {
        let shown = self.server.call("agents.get", json!({"session_id": session})).await?;
        Ok(shown["session"]["confine"].clone())
    }

    /// Plays one chat to its end and allows what it asks.
    async fn chat(&self, session: &Value, prompt: &str) -> Result<Ended> {
        let params = json!({"session_id": session, "prompt": prompt});
        let chat = self.server.call("agents.chat_async", params).await?["chat"].clone();
        let params = json!({"session_id": session, "chat": chat, "from_seq": 0, "limit": 1000});
        let step = async || {
            let open = self.server.call("loopback.pending", json!({})).await.ok()?;
            for open in open["approvals"].as_array()? {
                let digest = &open["input_digest"];
                let yes =
                    json!({"approval_id": open["id"], "approve": true, "input_digest": digest});
                self.server.call("loopback.respond", yes).await.ok()?;
            }
            let page = self.server.call("agents.poll", params.clone()).await.ok()?;
            let status = page["status"].as_str()?.to_owned();
            let runs = ["running", "awaiting_permission"].contains(&status.as_str());
            (!runs).then(|| Ended {
                status,
                events: page["events"].as_array().cloned().unwrap_or_default(),
            })
        };
        Ok(eventually_async("the end of the chat", PATIENCE, step).await)
    }

    /// How often the command ran.
    fn ran(&self) -> Result<usize> {
        let text = std::fs::read_to_string(self.work()?.join("ran")).unwrap_or_default();
        Ok(text.lines().count())
    }

    /// Checks that a chat did not start, for this reason, and that nothing ran. Returns what was
    /// said.
    async fn does_not_start(&self, session: &Value, whys: &[&str]) -> Result<String> {
        let before = self.ran()?;
        let ended = self.chat(session, PROMPT).await?;
        let said = ended.messages().join("\n");
        ensure!(ended.status == "failed", "{}: {:#?}", ended.status, ended.events);
        for why in whys {
            ensure!(said.contains(why), "no {why:?} in {said}");
        }
        ensure!(self.ran()? == before, "it ran without its wall: {said}");
        let tool = ended.events.iter().find(|event| event["event"]["type"] == "tool_use");
        ensure!(tool.is_none(), "the agent started without its wall: {:#?}", ended.events);
        Ok(said)
    }

    /// Checks that a chat works.
    async fn works(&self, session: &Value) -> Result<Ended> {
        let before = self.ran()?;
        let ended = self.chat(session, PROMPT).await?;
        ensure!(ended.status == "complete", "{}: {:#?}", ended.status, ended.events);
        ensure!(self.ran()? == before + 1, "{:#?}", ended.events);
        Ok(ended)
    }
}

/// The words that start a server without a mechanism of the kernel.
fn without(what: &str) -> Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into_os_string(), WORD.into(), what.into()])
}

fn block_on(case: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(case)
}

/// Neither Landlock nor namespaces: an old kernel in a container.
pub(crate) fn say_once_that_there_is_none(place: &HomeWithProject) -> Result<()> {
    block_on(async {
        let site = Site::start(place, without("both")?, &[]).await?;
        site.refuses("Landlock").await?;
        let open = site.create("open", None).await?;
        let wall = site.wall(&open).await?;
        let why = wall["missing"].as_str().unwrap_or_default();
        ensure!(wall["profile"] == "none" && why.contains("Landlock"), "{wall:#}");
        let ended = site.works(&open).await?;
        let notices = ended.messages().into_iter().filter(|it| it.contains("without a wall: "));
        ensure!(notices.count() == 1, "{:#?}", ended.events);
        let log = site.server.log();
        let told = log.matches("none, because workspace cannot be built").count();
        ensure!(told == 1, "{log}");
        // A session that asks for `none` itself gets no notice.
        let aloud = site.create("aloud", Some("none")).await?;
        ensure!(site.works(&aloud).await?.status == "complete");
        Ok(())
    })
}

/// A session keeps its wall on a machine that has lost it: it does not start, and starts again
/// where the machine has it.
pub(crate) fn do_not_start_where_the_wall_is_gone(place: &HomeWithProject) -> Result<()> {
    block_on(async {
        let site = Site::start(place, Vec::new(), &[]).await?;
        let (asked, default) =
            (site.create("asked", Some("workspace")).await?, site.create("default", None).await?);
        site.works(&asked).await?;
        site.works(&default).await?;
        drop(site);
        for what in ["landlock", "both"] {
            let site = Site::start(place, without(what)?, &[]).await?;
            for session in [&asked, &default] {
                site.does_not_start(session, &["Landlock", "next: "]).await?;
                let wall = site.wall(session).await?;
                ensure!(wall["profile"] == "workspace", "{wall:#}");
                ensure!(wall["missing"].as_str().is_some_and(|it| it.contains("Landlock")));
            }
        }
        let site = Site::start(place, Vec::new(), &[]).await?;
        site.works(&asked).await.map(drop)
    })
}

/// Without namespaces a session has the weaker tier and says so; where the operator demands the
/// stronger one, it has none.
pub(crate) fn have_the_weaker_tier_without_namespaces(place: &HomeWithProject) -> Result<()> {
    block_on(async {
        let site = Site::start(place, without("namespaces")?, &[]).await?;
        let session = site.create("weaker", Some("workspace")).await?;
        let wall = site.wall(&session).await?;
        ensure!(wall["profile"] == "workspace" && wall["tier"] == "landlock", "{wall:#}");
        let ended = site.works(&session).await?;
        let said = ended.messages().join("\n");
        ensure!(said.contains("within the wall workspace (landlock)"), "{said}");
        drop(site);
        let site = Site::start(place, without("namespaces")?, &["confine.tier=full"]).await?;
        site.refuses("make namespaces").await?;
        site.does_not_start(&session, &["make namespaces", "next: "]).await?;
        let open = site.create("open", None).await?;
        let ended = site.works(&open).await?;
        let said = ended.messages().join("\n");
        ensure!(said.matches("without a wall: ").count() == 1, "{said}");
        Ok(())
    })
}

/// What programs outside run later is protected, or its change is told once, in the chat in which
/// it was made.
pub(crate) fn tell_what_was_left_for_programs_outside(
    place: &HomeWithProject,
    tier: &str,
) -> Result<()> {
    block_on(async {
        let site = Site::start(place, Vec::new(), &[&format!("confine.tier={tier}")]).await?;
        let session = site.create("leaves", Some("workspace")).await?;
        let command = "echo a > .envrc; echo b > .git/hooks/post-commit; echo c > code; true";
        let call = json!({"command": command});
        let prompt = format!("sim:\ntool Bash {call}\nsay done");
        let told = async || {
            let ended = site.chat(&session, &prompt).await?;
            ensure!(ended.status == "complete", "{:#?}", ended.events);
            let is_ours =
                |it: &&str| it.starts_with("these files, which programs outside the wall may run");
            let told: Vec<_> = ended.messages().into_iter().filter(is_ours).collect();
            Ok(told.join("\n"))
        };
        let first = told().await?;
        ensure!(first.lines().count() == 1 && first.contains("/project/.envrc"), "{first}");
        ensure!(!first.contains("code") && !first.contains("; true"), "{first}");
        let hook = site.work()?.join(".git/hooks/post-commit").exists();
        ensure!(hook == (tier == "landlock") && first.contains(".git/hooks") == hook, "{first}");
        // The next process starts from what is there now.
        let second = told().await?;
        ensure!(second.is_empty(), "{second}");
        Ok(())
    })
}

/// A failure that passes is no reason for sessions without a wall: the default is refused too, and
/// can be had as soon as the machine has told what it can.
pub(crate) fn are_refused_until_it_is_known_what_can_be_enforced(
    place: &HomeWithProject,
) -> Result<()> {
    block_on(async {
        let temp = place.dir.path().join("temporary").display().to_string();
        let site = Site::start_with(place, Vec::new(), &[], &[("TMPDIR", &temp)]).await?;
        site.refuses("could not find out what this machine can enforce").await?;
        let refused = site.create("default", None).await.err().context("it was made")?;
        ensure!(refused.to_string().contains("next: mend that, and try again"), "{refused}");
        let log = site.server.log();
        ensure!(log.contains("sessions are refused unless they ask for none"), "{log}");
        let open = site.create("open", Some("none")).await?;
        let ended = site.works(&open).await?;
        ensure!(!ended.messages().join("\n").contains("wall"), "{:#?}", ended.events);
        std::fs::create_dir(&temp)?;
        let session = site.create("default", None).await?;
        let wall = site.wall(&session).await?;
        ensure!(wall["profile"] == "workspace" && wall["missing"].is_null(), "{wall:#}");
        site.works(&session).await.map(drop)
    })
}

/// A path of the operator's own list that is not there keeps every session with a wall from being
/// created, also by default: a wall without it would not be the one that was configured.
pub(crate) fn are_refused_where_a_configured_path_is_missing(
    place: &HomeWithProject,
) -> Result<()> {
    block_on(async {
        let site = Site::start(place, Vec::new(), &["confine.read=/nowhere"]).await?;
        site.refuses("names /nowhere, which is not there").await?;
        let refused = site.create("default", None).await.err().context("it was made")?;
        ensure!(refused.to_string().contains("next: make it"), "{refused}");
        let open = site.create("open", Some("none")).await?;
        site.works(&open).await.map(drop)
    })
}

/// `plexus run` has the default wall, and no wall only where `--no-wall` asks for that.
pub(crate) fn of_run_have_none_where_that_is_said(place: &HomeWithProject) -> Result<()> {
    block_on(async {
        let site = Site::start(place, Vec::new(), &[]).await?;
        for (name, flag, profile) in
            [("with", None, "workspace"), ("without", Some("--no-wall"), "none")]
        {
            let mut command = tokio::process::Command::new(PLEXUS);
            command.args(["run", "--name", name]).args(flag).arg("sim:\nsay hello");
            command.env("PLEXUS_DATA_DIR", site.server.data_dir()).env("HOME", place.dir.path());
            command.current_dir(site.work()?).stdin(std::process::Stdio::null());
            let output = command.output().await?;
            ensure!(output.status.success(), "{output:?}");
            let shown = site.server.call("agents.get", json!({"name": name})).await?;
            let wall = &shown["session"]["confine"];
            ensure!(wall["profile"] == profile, "{name}: {wall:#}");
        }
        Ok(())
    })
}

/// The whole server sees the project on a file system that takes no writes.
pub(crate) fn do_not_start_where_nothing_can_be_written(
    place: &HomeWithProject,
    tier: &str,
) -> Result<()> {
    let script = "cd \"$0\" && mount --bind . . && mount -o remount,bind,ro . && exec \"$@\"";
    let project = place.dir.path().join("project");
    let mut launcher: Vec<OsString> = ["unshare", "-rm", "sh", "-c", script].map(Into::into).into();
    launcher.push(project.into());
    block_on(async {
        let site = Site::start(place, launcher, &[&format!("confine.tier={tier}")]).await?;
        for (name, confine) in [("asked", Some("workspace")), ("default", None)] {
            let session = site.create(name, confine).await?;
            let whys = ["Read-only file system", "on a file system that can be written"];
            site.does_not_start(&session, &whys).await?;
        }
        Ok(())
    })
}

/// An egress process that refuses its settings: the chat has its reason, and no agent runs.
pub(crate) fn do_not_start_without_their_egress_process(
    place: &HomeWithProject,
    tier: &str,
) -> Result<()> {
    block_on(async {
        let proxy = [("HTTPS_PROXY", "http://name:correct-horse@proxy.example.org:3128")];
        let tier = format!("confine.tier={tier}");
        let site = Site::start_with(place, Vec::new(), &[&tier], &proxy).await?;
        let session = site.create("proxied", Some("workspace")).await?;
        let whys = ["could not start the egress process", "without a password"];
        let said = site.does_not_start(&session, &whys).await?;
        ensure!(!said.contains("correct-horse"), "it tells the password: {said}");
        Ok(())
    })
}
