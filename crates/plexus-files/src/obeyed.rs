//! The files that programs obey: whoever writes one decides what runs, without being asked again.
//!
//! Hooks, settings, start-up files, instructions for agents, build definitions. Rules and modes
//! allow no change of one unless it is named ([`obeyed_names`]), and a wall makes those read-only
//! that ordinary work does not change ([`protected`]). Source code is not listed: a person who runs
//! a project knows that it runs.

use std::collections::HashMap;
use std::path::{Component, Path};
use std::sync::LazyLock;

/// What a name in a project means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Programs obey it, and ordinary work does not change it: a wall makes it read-only.
    Protected,
    /// Programs obey it, and ordinary work changes it: rules and modes ask, and a wall lets it be.
    Asked,
    /// The same for everything in a directory of this name.
    AskedBelow,
    /// A hidden name that only says which files to leave out, or how text is laid out. Other hidden
    /// names are asked about.
    Harmless,
}

/// Every name, as it is written on disk. One `*` stands for any characters. Names are compared
/// without regard to case. A hidden name is obeyed unless it is [`Kind::Harmless`], so it is listed
/// only to be protected or excepted.
const NAMES: &[(Kind, &[&str])] = &[
    // Shells, and tools that change an environment on `cd`.
    (
        Kind::Protected,
        &[
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".bash_aliases",
            ".profile",
            ".xprofile",
            ".login",
            ".cshrc",
            ".tcshrc",
            ".kshrc",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".zlogout",
            ".inputrc",
            ".envrc",
            ".mise",
            ".mise.toml",
            ".mise.local.toml",
            "mise.toml",
            "mise.local.toml",
            ".tool-versions",
            ".ripgreprc",
            ".curlrc",
            ".wgetrc",
            ".screenrc",
            ".tmux.conf",
        ],
    ),
    // Editors, and debuggers.
    (
        Kind::Protected,
        &[
            ".vscode",
            ".idea",
            ".fleet",
            ".zed",
            ".helix",
            ".vim",
            ".vimrc",
            ".lvimrc",
            ".exrc",
            ".nvim",
            ".nvim.lua",
            ".nvimrc",
            ".lazy.lua",
            ".dir-locals.el",
            ".dir-locals-2.el",
            ".projectile",
            ".kakrc",
            ".devcontainer",
            ".devcontainer.json",
            ".gdbinit",
            ".lldbinit",
        ],
    ),
    (
        Kind::Asked,
        &[
            "*.code-workspace",
            "*.sublime-project",
            "*.sublime-workspace",
            "launchSettings.json",
            "project.godot",
            "*.iml",
            "*.ipr",
            "*.xcodeproj",
            "*.xcworkspace",
            "*.pbxproj",
            "*.xcconfig",
        ],
    ),
    // Agents.
    (
        Kind::Protected,
        &[
            ".claude",
            ".claude.json",
            ".claude-plugin",
            ".mcp.json",
            ".cursor",
            ".cursorrules",
            ".codex",
            ".gemini",
            ".opencode",
            "opencode.json",
            "opencode.jsonc",
            ".agents",
            ".aider.conf.yml",
            ".amazonq",
            ".augment",
            ".clinerules",
            ".continue",
            ".crush.json",
            "crush.json",
            ".factory",
            ".goose",
            ".goosehints",
            ".junie",
            ".kilocode",
            ".kilocodemodes",
            ".kiro",
            ".openhands",
            ".qwen",
            ".roo",
            ".roomodes",
            ".roorules",
            ".trae",
            ".windsurf",
            ".windsurfrules",
        ],
    ),
    (
        Kind::Asked,
        &[
            "CLAUDE.md",
            "CLAUDE.local.md",
            "AGENTS.md",
            "AGENTS.override.md",
            "AGENT.md",
            "GEMINI.md",
            "QWEN.md",
            "CRUSH.md",
            "WARP.md",
            "SKILL.md",
            "codex.md",
            "replit.md",
            "copilot-instructions.md",
            "*.agent.md",
            "*.chatmode.md",
            "*.instructions.md",
            "*.prompt.md",
            "hooks.json",
            "mcp.json",
            "gemini-extension.json",
            "qwen-extension.json",
        ],
    ),
    // Version control, and what installs its hooks. `HEAD` makes a repository of a directory. The
    // hooks have their names wherever `core.hooksPath` leads.
    (
        Kind::Protected,
        &[
            ".gitmodules",
            ".gitconfig",
            ".hg/hgrc",
            ".jj/repo/config.toml",
            ".husky",
            ".githooks",
            ".lefthook",
            ".lefthook-local",
            ".lefthook.yml",
            ".lefthook.yaml",
            ".lefthook.toml",
            ".lefthook.json",
            "lefthook.yml",
            "lefthook.yaml",
            "lefthook.toml",
            "lefthook.json",
            "lefthook-local.yml",
            "lefthook-local.yaml",
            "lefthook-local.toml",
            "lefthook-local.json",
            ".overcommit.yml",
            ".simple-git-hooks.json",
            ".pre-commit-config.yaml",
        ],
    ),
    (
        Kind::Asked,
        &[
            "HEAD",
            "lefthook.jsonc",
            "lefthook-local.jsonc",
            "hk.pkl",
            "prek.toml",
            "applypatch-msg",
            "commit-msg",
            "fsmonitor-watchman",
            "post-applypatch",
            "post-checkout",
            "post-commit",
            "post-index-change",
            "post-merge",
            "post-receive",
            "post-rewrite",
            "post-update",
            "pre-applypatch",
            "pre-auto-gc",
            "pre-commit",
            "pre-merge-commit",
            "pre-push",
            "pre-rebase",
            "pre-receive",
            "prepare-commit-msg",
            "proc-receive",
            "push-to-checkout",
            "reference-transaction",
            "sendemail-validate",
        ],
    ),
    (Kind::AskedBelow, &["*.git"]),
    // Interpreters that read a file of the directory in which they start, and package managers.
    (
        Kind::Protected,
        &[
            ".Rprofile",
            ".Renviron",
            ".RData",
            ".ghci",
            ".ocamlinit",
            ".irbrc",
            ".pryrc",
            ".pdbrc",
            ".psqlrc",
            ".sqliterc",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".pnpmfile.cjs",
            ".mvn",
            ".sbtopts",
            ".jvmopts",
            ".cargo/config",
            ".cargo/config.toml",
        ],
    ),
    // What is installed or compiled, and runs in place of the code that people read.
    (Kind::AskedBelow, &["node_modules", "site-packages", "__pycache__", "venv", "virtualenv"]),
    (Kind::Asked, &["*.pyc", "*.pth", "sitecustomize.py", "usercustomize.py"]),
    // Build definitions and dependencies, which editors run when they open a project.
    (
        Kind::Asked,
        &[
            // Rust.
            "Cargo.toml",
            "Cargo.lock",
            "build.rs",
            "bacon.toml",
            "cliff.toml",
            "Cross.toml",
            "Trunk.toml",
            "tauri.conf.json",
            "rust-toolchain",
            "rust-toolchain.toml",
            "rust-project.json",
            // JavaScript.
            "package.json",
            "package-lock.json",
            "npm-shrinkwrap.json",
            "yarn.lock",
            "pnpm-lock.yaml",
            "pnpm-workspace.yaml",
            "bun.lock",
            "bun.lockb",
            "bunfig.toml",
            "deno.json",
            "deno.jsonc",
            "deno.lock",
            "lerna.json",
            "nx.json",
            "project.json",
            "rush.json",
            "turbo.json",
            "*.config.js",
            "*.config.cjs",
            "*.config.mjs",
            "*.config.ts",
            "*.config.cts",
            "*.config.mts",
            "*.config.json",
            "*.conf.js",
            "*.conf.ts",
            "angular.json",
            "ember-cli-build.js",
            "import_map.json",
            "importmap.json",
            "jsconfig.json",
            "knexfile.*",
            "moon.yml",
            "nodemon.json",
            "plopfile.*",
            "tsconfig*.json",
            "tslint.json",
            "webpack.*",
            "workspace.json",
            "gulpfile.*",
            "Gruntfile.*",
            // Python.
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "tox.ini",
            "pytest.ini",
            "conftest.py",
            "conf.py",
            "buildout.cfg",
            "ipython_config.py",
            "jupyter*_config.py",
            "matplotlibrc",
            "mkdocs.yml",
            "mypy.ini",
            "pants.toml",
            "pylintrc",
            "pyrightconfig.json",
            "noxfile.py",
            "fabfile.py",
            "dodo.py",
            "requirements*.txt",
            "constraints*.txt",
            "Pipfile",
            "Pipfile.lock",
            "poetry.lock",
            "poetry.toml",
            "uv.lock",
            "uv.toml",
            "environment.yml",
            "pixi.toml",
            // Go.
            "go.mod",
            "go.sum",
            "go.work",
            // Java and its kin.
            "pom.xml",
            "mvnw",
            "mvnw.cmd",
            "*.gradle",
            "*.gradle.kts",
            "gradle.properties",
            "gradlew",
            "gradlew.bat",
            "gradle-wrapper.jar",
            "gradle-wrapper.properties",
            "*.versions.toml",
            "*.sbt",
            "build.xml",
            "build.properties",
            "build.sc",
            "build.mill",
            "project.clj",
            "deps.edn",
            "shadow-cljs.edn",
            "bb.edn",
            "user.clj",
            // C and C++.
            "Makefile",
            "GNUmakefile",
            "Makefile.*",
            "*.mk",
            "*.mak",
            "CMakeLists.txt",
            "CMakePresets.json",
            "CMakeUserPresets.json",
            "*.cmake",
            "compile_commands.json",
            "compile_flags.txt",
            "meson.build",
            "meson_options.txt",
            "meson.options",
            "*.ninja",
            "configure",
            "configure.ac",
            "SConstruct",
            "SConscript",
            "wscript",
            "xmake.lua",
            "premake5.lua",
            "conanfile.*",
            "vcpkg.json",
            "BUILD",
            "BUILD.bazel",
            "WORKSPACE",
            "WORKSPACE.bazel",
            "MODULE.bazel",
            "*.bzl",
            "*.bazelrc",
            "bazel",
            "BUILD.gn",
            "*.gni",
            "DEPS",
            "BUCK",
            // .NET.
            "*.csproj",
            "*.fsproj",
            "*.vbproj",
            "*.vcxproj",
            "*.proj",
            "*.props",
            "*.targets",
            "*.sln",
            "*.slnx",
            "NuGet.config",
            "global.json",
            "omnisharp.json",
            "paket.dependencies",
            "profile.ps1",
            // Others.
            "Gemfile",
            "Gemfile.lock",
            "Rakefile",
            "Brewfile",
            "Capfile",
            "Dangerfile*",
            "Guardfile",
            "Thorfile",
            "*.rake",
            "*.gemspec",
            "Podfile",
            "Fastfile",
            "composer.json",
            "composer.lock",
            "phpstan.neon*",
            "phpunit.xml*",
            "psalm.xml",
            "mix.exs",
            "rebar.config",
            "Package.swift",
            "build.zig",
            "build.zig.zon",
            "dub.json",
            "dub.sdl",
            "dune",
            "dune-project",
            "*.opam",
            "*.cabal",
            "cabal.project",
            "Setup.hs",
            "stack.yaml",
            "hie.yaml",
            "shard.yml",
            "pubspec.yaml",
            "analysis_options.yaml",
            "build.yaml",
            "*.nimble",
            "*.nims",
            "nim.cfg",
            "*.rockspec",
            "*.nix",
            "flake.lock",
            "devbox.json",
            "justfile",
            "Taskfile.*",
            "Tiltfile",
            "Earthfile",
            "Snakefile",
            "Vagrantfile",
            "Build.PL",
            "cpanfile",
            "latexmkrc",
            "startup.m",
            "book.toml",
            "buf.gen.yaml",
            "codegen.yml",
            "codegen.yaml",
            "Doxyfile",
            "ansible.cfg",
        ],
    ),
    // Build servers, containers and deployment.
    (
        Kind::Asked,
        &[
            "Jenkinsfile*",
            "azure-pipelines*.yml",
            "bitbucket-pipelines.yml",
            "appveyor.yml",
            "buildspec.yml",
            "cloudbuild.yaml",
            "cloudbuild.json",
            "codemagic.yaml",
            "action.yml",
            "action.yaml",
            "Dockerfile*",
            "*.Dockerfile",
            "Containerfile*",
            "docker-compose*",
            "compose.yml",
            "compose.yaml",
            "compose.*.yml",
            "compose.*.yaml",
            "docker-bake.*",
            "skaffold.yaml",
            "Procfile*",
            "fly.toml",
            "netlify.toml",
            "render.yaml",
            "vercel.json",
            "firebase.json",
            "serverless.yml",
            "wrangler.toml",
            "wrangler.json",
            "wrangler.jsonc",
            "amplify.yml",
            "cdk.json",
            "helmfile.yaml",
            "heroku.yml",
            "mprocs.yaml",
            "nixpacks.toml",
            "process-compose.yml",
            "process-compose.yaml",
            "Pulumi.yaml",
            "railway.json",
            "railway.toml",
            "renovate.json",
            "terragrunt.hcl",
        ],
    ),
    (
        Kind::Harmless,
        &[
            ".bzrignore",
            ".clang-format",
            ".dockerignore",
            ".editorconfig",
            ".empty",
            ".env.example",
            ".env.sample",
            ".env.template",
            ".eslintignore",
            ".fdignore",
            ".gcloudignore",
            ".git-blame-ignore-revs",
            ".gitignore",
            ".gitkeep",
            ".helmignore",
            ".hgignore",
            ".ignore",
            ".keep",
            ".mailmap",
            ".markdownlint.json",
            ".markdownlintignore",
            ".nojekyll",
            ".npmignore",
            ".prettierignore",
            ".rgignore",
            ".rustfmt.toml",
            ".stylelintignore",
            ".vercelignore",
            ".vscodeignore",
            ".well-known",
        ],
    ),
];

/// The names without `*`, in lower case.
static EXACT: LazyLock<HashMap<String, Kind>> = LazyLock::new(|| {
    all()
        .filter(|(_, name)| !name.contains(['*', '/']))
        .map(|(it, name)| (fold(name), it))
        .collect()
});

/// What names with a `*` begin and end with, in lower case.
static WILD: LazyLock<Vec<(String, String, Kind)>> = LazyLock::new(|| {
    let wild = all().filter_map(|(kind, name)| Some((kind, name.split_once('*')?)));
    wild.map(|(kind, (start, end))| (fold(start), fold(end), kind)).collect()
});

fn all() -> impl Iterator<Item = (Kind, &'static str)> {
    NAMES.iter().flat_map(|(kind, names)| names.iter().map(|name| (*kind, *name)))
}

fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// Returns the names in a path that make programs obey what is there, in lower case: its own, or
/// those of directories on the way to it.
pub fn obeyed_names(path: &Path) -> impl Iterator<Item = String> {
    let mut parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(fold(&name.to_string_lossy())),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    });
    let mut next = parts.next();
    std::iter::from_fn(move || {
        let name = next.take()?;
        next = parts.next();
        Some((name, next.is_none()))
    })
    .filter_map(|(name, is_last)| is_obeyed_name(&name, is_last).then_some(name))
}

/// Says whether programs obey the file at a path, or one in a directory of that name.
#[must_use]
pub fn is_obeyed(path: &Path) -> bool {
    obeyed_names(path).next().is_some()
}

fn is_obeyed_name(name: &str, is_last: bool) -> bool {
    let fits = |start: &str, end: &str| {
        name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
    };
    let wild = || WILD.iter().find(|(start, end, _)| fits(start, end)).map(|(.., kind)| *kind);
    match EXACT.get(name).copied().or_else(wild) {
        Some(Kind::Harmless) => false,
        Some(Kind::Protected | Kind::AskedBelow) => true,
        Some(Kind::Asked) => is_last,
        None => name.starts_with('.'),
    }
}

/// Returns the paths below a project that a wall makes read-only where they exist. A git directory
/// has places of its own.
pub fn protected() -> impl Iterator<Item = &'static Path> {
    all().filter(|(kind, _)| *kind == Kind::Protected).map(|(_, name)| Path::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obeyed_names_are_found_anywhere_in_a_path() {
        for (path, expected) in [
            ("src/main.rs", &[][..]),
            ("src/x/.git/config", &[".git"]),
            ("x.git/hooks/update", &["x.git"]),
            (".GitHub/workflows/ci.yml", &[".github"]),
            ("a/.unknown/b", &[".unknown"]),
            ("docs/.gitignore", &[]),
            (".well-known/security.txt", &[]),
            (".gitattributes", &[".gitattributes"]),
            (".prettierrc", &[".prettierrc"]),
            ("web/package.json", &["package.json"]),
            ("node_modules/.bin/x", &["node_modules", ".bin"]),
            ("sub/HEAD", &["head"]),
            ("src/head/mod.rs", &[]),
            ("build/out.txt", &[]),
            ("src/build", &["build"]),
            ("vite.config.ts", &["vite.config.ts"]),
            ("src/config.ts", &[]),
            ("requirements-dev.txt", &["requirements-dev.txt"]),
            ("claude.md", &["claude.md"]),
            ("tools/hooks/pre-push", &["pre-push"]),
            ("src/hooks/useCart.ts", &[]),
        ] {
            let found: Vec<String> = obeyed_names(Path::new(path)).collect();
            assert_eq!(found, expected, "{path}");
            assert_eq!(is_obeyed(Path::new(path)), !expected.is_empty(), "{path}");
        }
    }

    #[test]
    fn rules_ask_about_everything_that_a_wall_protects() {
        for path in protected() {
            assert!(is_obeyed(path), "{}", path.display());
            assert!(!path.to_string_lossy().contains('*'), "{}", path.display());
        }
    }

    #[test]
    fn every_name_is_listed_once_and_has_an_effect() {
        let mut seen = std::collections::HashSet::new();
        for (kind, name) in all() {
            assert!(seen.insert(fold(name)), "{name} is there twice");
            assert!(name.matches('*').count() <= 1 || kind == Kind::Asked, "{name}");
            let is_hidden = name.starts_with('.');
            match kind {
                Kind::Harmless => assert!(is_hidden, "{name} needs no exception"),
                Kind::Asked => assert!(!is_hidden, "{name} is asked about as a hidden name"),
                Kind::Protected | Kind::AskedBelow => {}
            }
        }
    }
}
