//! The variables that a program gets inside, and the files that they name.
//!
//! Caches shared with programs outside are a way out (cargo does not check unpacked sources
//! again), so they are readable, and each run writes into caches of its own. A rule for a file dies
//! with the file, and `git config --global` replaces it: git gets a copy.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::Path;

use crate::machine::Tier;
use crate::plan::Plan;
use crate::profile::CACHES;
use crate::wall::Profile;

/// The directory of caches within the temporary directory.
const OWN_CACHES: &str = ".plexus-cache";
/// Tools wait this long for an answer, because a person may be asked before the proxy answers.
const TOOL_TIMEOUT_SECS: &str = "300";
/// Adds the variables and the files to be copied.
pub(crate) fn add(plan: &mut Plan, home: Option<&Path>, can_layer: bool) {
    let inside = plan.temp_inside();
    let caches = inside.join(OWN_CACHES);
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
        let outside = plan.temp_dir.join("tmp").join(OWN_CACHES);
        for name in [".config/git/config", ".gitconfig"] {
            if let Ok(file) = home.join(name).canonicalize() {
                plan.copies.push((file, outside.join("gitconfig")));
            }
        }
        for name in ["bin", "env", "config.toml", "registry", "git"] {
            if let Ok(found) = home.join(".cargo").join(name).canonicalize() {
                plan.cache_links.insert(outside.join("cargo").join(name), found);
            }
        }
        for (number, name) in CACHES.iter().enumerate() {
            if let Ok(found) = home.join(name).canonicalize()
                && can_layer
            {
                plan.read.remove(&found);
                plan.layers.insert(found, plan.temp_dir.join(format!("layer-{number}")));
            }
        }
        // rustup finds its tool chains from the home directory; the variable only makes it certain.
        if home.join(".rustup").exists() {
            let rustup = home.join(".rustup").to_string_lossy().into_owned();
            plan.variables.insert("RUSTUP_HOME".to_owned(), rustup);
        }
    }
}

/// Adds the variables that lead to the doors. Their ports are known once they are open.
pub(crate) fn add_doors(plan: &mut Plan) {
    if let (Some(port), Some(name)) = (plan.doors.model, &plan.model_variable) {
        plan.variables.insert(name.clone(), format!("http://127.0.0.1:{port}"));
    }
    if let Some(port) = plan.doors.proxy {
        let proxy = format!("http://127.0.0.1:{port}");
        let none = "127.0.0.1,localhost".to_owned();
        for name in
            ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"]
        {
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
    let mut dirs = vec![tmp.join(OWN_CACHES)];
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
    for (name, target) in &plan.cache_links {
        link(target, name)?;
    }
    Ok(())
}

/// Makes a link and the directory that it lies in.
fn link(target: &Path, at: &Path) -> io::Result<()> {
    if let Some(dir) = at.parent() {
        fs::create_dir_all(dir)?;
    }
    match symlink(target, at) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
