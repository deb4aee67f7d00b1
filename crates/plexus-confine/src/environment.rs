//! The variables that a program gets inside, and the files that they name.
//!
//! Caches shared with programs outside are a way out (cargo does not check unpacked sources
//! again), so they are readable, and each run writes into caches of its own. A rule for a file dies
//! with the file, and `git config --global` replaces it: git gets a copy.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::machine::Tier;
use crate::plan::Plan;
use crate::wall::Profile;

/// The directory of caches within the temporary directory.
const CACHES: &str = ".plexus-cache";
/// Tools wait this long for an answer, because a person may be asked before the proxy answers.
const TOOL_TIMEOUT_SECS: &str = "300";
/// The most packages that are linked one by one into the run's cargo cache. Beyond them the cache
/// is readable as a whole, and nothing can be added to it.
const MAX_LINKS: usize = 4_096;

/// Adds the variables and the files to be copied.
pub(crate) fn add(plan: &mut Plan, home: Option<&Path>) {
    let inside = plan.temp_inside();
    let caches = inside.join(CACHES);
    let mut set = |name: &str, value: &Path| {
        plan.variables.insert(name.to_owned(), value.to_string_lossy().into_owned());
    };
    for name in ["TMPDIR", "TMP", "TEMP"] {
        set(name, &inside);
    }
    set("XDG_CACHE_HOME", &caches);
    set("npm_config_cache", &caches.join("npm"));
    set("PIP_CACHE_DIR", &caches.join("pip"));
    set("GOCACHE", &caches.join("go-build"));
    set("CARGO_HOME", &caches.join("cargo"));
    set("GIT_CONFIG_GLOBAL", &caches.join("gitconfig"));
    if let Some(home) = home
        && plan.profile == Profile::Workspace
    {
        let outside = plan.temp_dir.join("tmp").join(CACHES);
        for name in [".config/git/config", ".gitconfig"] {
            if let Ok(file) = home.join(name).canonicalize() {
                plan.copies.push((file, outside.join("gitconfig")));
            }
        }
        if let Ok(cargo) = home.join(".cargo").canonicalize() {
            plan.cargo_home = Some((cargo, outside.join("cargo")));
        }
        // rustup finds its tool chains from the home directory; the variable only makes it certain.
        if home.join(".rustup").exists() {
            let rustup = home.join(".rustup").to_string_lossy().into_owned();
            plan.variables.insert("RUSTUP_HOME".to_owned(), rustup);
        }
    }
    if let Some(port) = plan.doors.proxy {
        let proxy = format!("http://127.0.0.1:{port}");
        let none = "127.0.0.1,localhost".to_owned();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"] {
            plan.variables.insert(name.to_owned(), proxy.clone());
        }
        for name in ["NO_PROXY", "no_proxy"] {
            plan.variables.insert(name.to_owned(), none.clone());
        }
        plan.variables.insert("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
        for name in ["PIP_DEFAULT_TIMEOUT", "CARGO_HTTP_TIMEOUT"] {
            plan.variables.insert(name.to_owned(), TOOL_TIMEOUT_SECS.to_owned());
        }
    }
}

/// Makes the directories, copies and links.
pub(crate) fn prepare(plan: &Plan) -> io::Result<()> {
    let tmp = plan.temp_dir.join("tmp");
    let mut dirs = vec![tmp.join(CACHES)];
    match plan.tier {
        Tier::Full => dirs.push(plan.temp_dir.join("var-tmp")),
        Tier::Landlock => {}
    }
    for dir in dirs {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    for (from, to) in &plan.copies {
        let text = fs::read(from)?;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(to)?;
        file.write_all(&text)?;
        file.write_all(b"\n")?;
    }
    if let Some((from, to)) = &plan.cargo_home {
        link_cargo_home(from, to)?;
    }
    Ok(())
}

/// A cargo home of its own, in which everything that is there already is a link.
fn link_cargo_home(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for name in ["bin", "env", "config.toml", "git"] {
        link(&from.join(name), &to.join(name))?;
    }
    let registry = to.join("registry");
    fs::create_dir_all(&registry)?;
    // cargo goes on when it cannot write into an index.
    link(&from.join("registry/index"), &registry.join("index"))?;
    for family in ["cache", "src"] {
        let mut links = Vec::new();
        for index in names(&from.join("registry").join(family)) {
            let packages = names(&from.join("registry").join(family).join(&index));
            links.extend(packages.into_iter().map(|package| index.join(package)));
        }
        if links.len() > MAX_LINKS {
            link(&from.join("registry").join(family), &registry.join(family))?;
            continue;
        }
        for path in links {
            let link_at = registry.join(family).join(&path);
            if let Some(dir) = link_at.parent() {
                fs::create_dir_all(dir)?;
            }
            link(&from.join("registry").join(family).join(&path), &link_at)?;
        }
    }
    Ok(())
}

fn names(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.file_name().into()).collect()
}

/// Makes a link to what exists.
fn link(target: &Path, at: &Path) -> io::Result<()> {
    if !target.exists() {
        return Ok(());
    }
    match symlink(target, at) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
