//! Files, work and the key.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testkit::messages_api::Step;

use crate::server_with_claude::{ServerWithClaude, Way};

pub(crate) async fn an_approved_cat_cannot_read_the_operators_token(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    let token = setup.server.data_dir().join("operator.token");
    let secret = std::fs::read_to_string(&token)?.trim().to_owned();
    let command = format!("cat {} || echo closed", token.display());
    setup.chat(&[Step::bash(&command), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    let events = setup.completed().await?;
    let told = serde_json::to_string(&setup.api.tool_results().pop().context("no result")?.text)?;
    ensure!(told.contains("closed") && !told.contains(&secret), "{told}: {events:#?}");
    // The session says what confines it.
    let shown = setup.server.call("claudecode.get", json!({"session_id": setup.session})).await?;
    let wall = &shown["session"]["confine"];
    ensure!(wall["profile"] == "workspace" && wall["tier"] == way.tier.unwrap_or(""), "{wall:#}");
    ensure!(wall["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty()), "{wall:#}");
    let words = serde_json::to_string(&events)?;
    ensure!(words.contains("within the wall workspace"), "{words}");
    Ok(())
}

pub(crate) async fn editing_and_git_work(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    let git = "git init -q . && git config user.email a@b && git config user.name me; \
               git add -A && git -c user.email=a@b -c user.name=me commit -qm one && git log \
               --oneline";
    setup
        .chat(&[
            Step::bash("echo made > made && mktemp && python3 -c 'print(6 * 7)'"),
            Step::bash(git),
            Step::text("done"),
        ])
        .await?;
    for _ in 0..2 {
        let asked = setup.asked().await?;
        setup.allow(&asked).await?;
    }
    let events = setup.completed().await?;
    let results = setup.api.tool_results();
    ensure!(setup.text_of("made") == "made\n", "{events:#?}");
    ensure!(results[0].text.contains("42") && results[1].text.contains("one"), "{results:#?}");
    Ok(())
}

pub(crate) async fn the_key_stays_outside(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    let key = setup.sandbox.env().into_iter().find(|(name, _)| name == "ANTHROPIC_API_KEY");
    let (_, key) = key.context("the sandbox has no key")?;
    let command = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true";
    setup.chat(&[Step::bash(command), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    setup.completed().await?;
    let told = setup.api.tool_results().pop().context("no result")?.text;
    ensure!(told.contains("PATH=") && !told.contains(&key), "{told}");
    // The model was called with the real one all the same.
    let sent = setup.api.main_requests().pop().context("no request")?;
    ensure!(sent.headers.get("x-api-key") == Some(&key), "{sent:?}");
    let shown = setup.server.call("claudecode.get", json!({"session_id": setup.session})).await?;
    let place = shown["session"]["confine"]["key"].as_str().unwrap_or_default().to_owned();
    ensure!(place.starts_with("outside the wall"), "{place}");
    Ok(())
}

pub(crate) async fn a_command_cannot_touch_its_own_agent(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    let command = r#"
        cat "$CLAUDE_CONFIG_DIR/.claude.json" 2>/dev/null && echo "reads its configuration"
        ls "$CLAUDE_CONFIG_DIR/projects" 2>/dev/null && echo "lists its conversations"
        kill -0 $PPID 2>/dev/null && echo "signals it"
        cat /proc/$PPID/environ 2>/dev/null | grep -q . && echo "reads its environment"
        [ -n "$ANTHROPIC_API_KEY$ANTHROPIC_BASE_URL$PLEXUS_RUN" ] && echo "has its key"
        echo tried"#;
    setup.chat(&[Step::bash(command), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    setup.completed().await?;
    let told = setup.api.tool_results().pop().context("no result")?.text;
    ensure!(told.trim() == "tried", "{told}");
    Ok(())
}

/// A wall of the full tier has a `/tmp` of its own, which its commands may write as a whole.
pub(crate) async fn a_command_cannot_touch_its_own_agent_below_tmp(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let way = Way { channel: "mcp", data_below: "/tmp", ..way };
    let setup = ServerWithClaude::new(cli, way).await?;
    let data = setup.server.data_dir();
    ensure!(data.starts_with("/tmp"), "{}", data.display());
    let (config, first) = (
        data.join("runs").join(&setup.session).join("config"),
        data.components().take(3).collect::<PathBuf>(),
    );
    // The names are written out: what a variable of the command says is the command's own matter.
    let command = format!(
        r#"
        config='{config}' data='{data}' first='{first}'
        cat "$config/.claude.json" 2>/dev/null && echo "reads its configuration"
        cat "$(readlink -f "$config")/.claude.json" 2>/dev/null && echo "reads it by another name"
        ls "$config/projects" 2>/dev/null && echo "lists its conversations"
        : 2>/dev/null > "$config/settings.json" && echo "writes its settings"
        rm -rf "$config" 2>/dev/null; [ -e "$config" ] || echo "removes its configuration"
        find "$data" -type f -readable 2>/dev/null | grep -v /wall/inside/ && echo "reads its data"
        grep -Rqs plx_ "$data" && echo "reads a token"
        shell=$(find "$data" -name plexus-shell 2>/dev/null | head -n 1)
        [ -n "$shell" ] && ln -sf /bin/true "$shell" 2>/dev/null && echo "replaces its shell"
        mv "$first" /tmp/elsewhere 2>/dev/null && echo "moves the way to its data"
        echo tried"#,
        config = config.display(),
        data = data.display(),
        first = first.display(),
    );
    setup.chat(&[Step::bash(&command), Step::bash("echo again > made"), Step::text("x")]).await?;
    for _ in 0..2 {
        let asked = setup.asked().await?;
        setup.allow(&asked).await?;
    }
    setup.completed().await?;
    let told = setup.api.tool_results();
    ensure!(told.iter().any(|result| result.text.trim() == "tried"), "{told:#?}");
    // The agent itself still has all of it.
    ensure!(setup.text_of("made") == "again\n", "{told:#?}");
    Ok(())
}

pub(crate) async fn the_mcp_channel_and_a_fork_work(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, Way { channel: "mcp", ..way }).await?;
    setup.chat(&[Step::bash("echo made > made"), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    setup.completed().await?;
    ensure!(setup.text_of("made") == "made\n");
    // The fork goes on with the conversation, which lies in the directory of its source.
    let fork = json!({"session_id": setup.session, "new_name": "fork"});
    let fork = setup.server.call("claudecode.fork", fork).await?;
    let prompt = testkit::messages_api::prompt(&[Step::text("again")]);
    let params = json!({"session_id": fork["id"], "prompt": prompt});
    let said = setup.server.call("claudecode.chat", params).await?;
    ensure!(said["status"] == "complete" || said.to_string().contains("again"), "{said:#}");
    let last = setup.api.main_requests().pop().context("no request")?;
    let remembers = serde_json::to_string(last.messages())?.contains("echo made > made");
    ensure!(remembers, "the fork remembers nothing: {last:?}");
    Ok(())
}

/// Small projects that need no network.
pub(crate) const PROJECTS: &str = r#"set -e
mkdir -p node/part && cd node
(cd part && npm init -y >/dev/null)
npm init -y >/dev/null && npm install --offline --no-audit --no-fund ./part >/dev/null
node -e 'console.log("npm", require.resolve("part/package.json") ? "works" : "")'
mkdir -p ../wheel && cd ../wheel
python3 - <<'END'
import zipfile
with zipfile.ZipFile("small-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("small.py", "print('pip works')\n")
    info = "small-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
END
python3 -m pip install --quiet --no-index --target there small-1.0-py3-none-any.whl
PYTHONPATH=there python3 -m small
mkdir -p ../crate && cd ../crate
export PATH="$HOME/.rustup/bin:$PATH"
cargo init --quiet --name small --vcs git .
echo 'fn main() { println!("cargo works"); }' > src/main.rs
cargo run --quiet --offline
git add -A && git -c user.email=a@b -c user.name=me commit -qm one && git log --format='format:git works'
"#;

pub(crate) async fn npm_pip_cargo_and_git_work(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    put_projects(&setup.sandbox.home(), &setup.sandbox.work())?;
    setup.chat(&[Step::bash("bash projects.sh 2>&1"), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    let events = setup.completed().await?;
    let told = setup.api.tool_results().pop().context("no result")?.text;
    check_projects(&told).with_context(|| format!("{events:#?}"))
}

/// Puts the projects into a working directory, as `projects.sh`, and the tool chain of this test
/// where the wall looks for one in a home directory.
pub(crate) fn put_projects(home: &Path, work: &Path) -> Result<()> {
    let toolchain = Path::new(env!("CARGO")).ancestors().nth(2).context("cargo has no place")?;
    std::os::unix::fs::symlink(toolchain, home.join(".rustup"))?;
    Ok(std::fs::write(work.join("projects.sh"), PROJECTS)?)
}

/// Checks what the projects said.
pub(crate) fn check_projects(told: &str) -> Result<()> {
    for tool in ["npm", "pip", "cargo", "git"] {
        ensure!(told.contains(&format!("{tool} works")), "{tool}: {told}");
    }
    Ok(())
}

/// What a command would change is seen before it is allowed, and the real run then changes it.
pub(crate) async fn a_command_is_seen_before_it_is_allowed(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    let token = setup.server.data_dir().join("operator.token");
    let command = format!(
        "echo made > made; env; cat {} || curl -sS --max-time 2 http://127.0.0.1/ || echo closed",
        token.display()
    );
    setup.chat(&[Step::bash(&command), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    ensure!(asked["preview"] == true, "{asked:#}");
    let preview = json!({"approval_id": asked["id"]});
    let seen = setup.server.call("loopback.preview", preview).await?;
    let made = json!({"path": "made", "change": "added", "diff": "@@ -0,0 +1 @@\n+made\n"});
    ensure!(seen["changes"] == json!([made]) && seen["end"]["how"] == "exited", "{seen:#}");
    ensure!(seen["note"].as_str().is_some_and(|note| note.contains("nothing is bound to")));
    let secrets = [std::fs::read_to_string(&token)?, "ANTHROPIC_".into(), "PLEXUS_".into()];
    let said = format!("{}{}", seen["stdout"], seen["stderr"]);
    ensure!(said.contains("closed") && said.contains("PATH="), "{said}");
    ensure!(!secrets.iter().any(|secret| said.contains(secret.trim())), "{said}");
    ensure!(setup.text_of("made").is_empty(), "the dry run changed the real directory");
    setup.allow(&asked).await?;
    setup.completed().await?;
    ensure!(setup.text_of("made") == "made\n");
    Ok(())
}
