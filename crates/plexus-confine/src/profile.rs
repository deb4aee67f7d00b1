//! The profiles as data: which paths every program may read, and which devices it may use.
//!
//! Paths that do not exist on a machine are skipped. What is missing here is closed: `/home`,
//! `/root`, `/run`, `/tmp`, `/var`, `/mnt`, `/media`, `/srv`, `/boot`, and in the home directory
//! everything that may hold a secret (`.ssh`, `.aws`, `.netrc`, `.npmrc`, `.pypirc`,
//! `.git-credentials`, `.cargo/credentials.toml`, `.config`, `.gnupg`, `.kube`).

/// The system: read and executed in every profile.
pub(crate) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc",
    "/nix/store",
    "/gnu/store",
    "/snap",
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/run/current-system",
    "/var/lib/ca-certificates",
];

/// Tool chains and settings in the home directory: read and executed in `workspace`.
pub(crate) const TOOL_CHAINS: &[&str] = &[
    ".config/git/ignore",
    ".config/git/attributes",
    ".gitignore_global",
    ".bashrc",
    ".bash_profile",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".inputrc",
    ".local/bin",
    ".local/lib",
    ".local/share/claude",
    ".local/share/uv",
    ".local/share/pnpm",
    ".local/share/mise",
    ".local/share/fnm",
    ".cargo/bin",
    ".cargo/env",
    ".cargo/config.toml",
    ".cargo/registry",
    ".cargo/git",
    ".rustup",
    ".nvm",
    ".fnm",
    ".volta",
    ".asdf",
    ".pyenv",
    ".rbenv",
    ".sdkman",
    ".deno",
    ".bun",
    "go",
    ".nix-profile",
];

/// Caches in the home directory, below [`TOOL_CHAINS`], that tools add to. In the full tier a run
/// sees what is there and keeps what it adds to itself; in the landlock tier it can add nothing.
pub(crate) const CACHES: &[&str] = &[".cargo/registry", ".cargo/git", ".pyenv/shims", "go/pkg"];

/// Devices without a memory: read and written in every profile.
pub(crate) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// How programs make a terminal for others. In the full tier they get a file system of their own
/// instead; in the landlock tier other terminals of the user are there too, so `strict` has none.
pub(crate) const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts"];

/// Files in `/etc` that only root can read. A confined root may not.
pub(crate) const SECRETS_OF_THE_SYSTEM: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/security/opasswd",
    "/etc/krb5.keytab",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/NetworkManager/system-connections",
    "/etc/wireguard",
    "/etc/rancher",
    "/etc/kubernetes",
];
