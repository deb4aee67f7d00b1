//! The attacks and what is expected of them, and the table in `docs/confine.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::Columns;
use crate::column::{Column, Outcome};

/// As whom an attack runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum User {
    Ordinary,
    Root,
}

impl User {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "user",
            Self::Root => "root",
        }
    }
}

/// One attack. What is expected has a letter for each of [`Column::ALL`]: `y` it succeeds, `-` it
/// is refused, `m` it depends on the machine, `x` it makes no sense.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    group: &'static str,
    words: &'static str,
    as_user: &'static str,
    as_root: &'static str,
}

impl Attack {
    fn expected(&self, user: User, column: Column) -> char {
        let letters = match user {
            User::Ordinary => self.as_user,
            User::Root => self.as_root,
        };
        let index = Column::ALL.iter().position(|known| *known == column);
        index.and_then(|index| letters.chars().nth(index)).unwrap_or('?')
    }

    /// Says what is wrong with an outcome, or nothing.
    pub(crate) fn complaint(
        &self,
        user: User,
        column: Column,
        outcome: Option<&Outcome>,
    ) -> Option<String> {
        let expected = self.expected(user, column);
        let is_right = matches!(
            (expected, outcome),
            ('m' | 'x', Some(_))
                | ('y', Some(Outcome::Succeeded))
                | ('-', Some(Outcome::Refused(_)))
        );
        (!is_right).then(|| format!("{}: expected {expected}, saw {outcome:?}", self.name))
    }
}

/// Where the table is, and the marks around it.
const DOCUMENT: &str = "../../docs/confine.md";
const BEGIN: &str = "<!-- attacks -->\n";
const END: &str = "<!-- end of attacks -->\n";
/// Writes the table instead of comparing it.
const UPDATE: &str = "UPDATE_ATTACKS";

/// The table, with a cell for the ordinary user and one for root in each column.
pub(crate) fn render(seen: &Columns) -> String {
    let mut text = String::from(
        "| attack | nothing | workspace, landlock | strict, landlock | workspace, full | \
         strict, full |\n|---|---|---|---|---|---|\n",
    );
    let mut sums: BTreeMap<(User, String), usize> = BTreeMap::new();
    let mut group = "";
    for attack in ATTACKS {
        if attack.group != group {
            group = attack.group;
            let _ = writeln!(text, "| **{group}** | | | | | |");
        }
        let _ = write!(text, "| {} |", attack.words);
        for column in Column::ALL {
            let mut cells = [User::Ordinary, User::Root].map(|user| {
                let key = (user, column.name());
                let outcome = seen.get(&key).and_then(|outcomes| outcomes.get(attack.name));
                match outcome {
                    _ if attack.expected(user, column) == 'x' => "",
                    Some(Outcome::Succeeded) => {
                        *sums.entry(key).or_default() += 1;
                        "yes"
                    }
                    Some(Outcome::Refused(_)) => "-",
                    Some(Outcome::Untried(_)) | None => "",
                }
            });
            if cells[0] == cells[1] || cells[1].is_empty() {
                let _ = write!(text, " {} |", cells[0]);
            } else {
                cells[0] = if cells[0] == "yes" { "user" } else { "root" };
                let _ = write!(text, " {} |", cells[0]);
            }
        }
        text.push('\n');
    }
    for user in [User::Ordinary, User::Root] {
        let _ = write!(text, "| **successes of {}, as {}** |", ATTACKS.len(), user.name());
        for column in Column::ALL {
            let _ = write!(text, " {} |", sums.get(&(user, column.name())).unwrap_or(&0));
        }
        text.push('\n');
    }
    text
}

/// Compares the table with the document, or writes it there when asked.
pub(crate) fn compare_with_document(table: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
    let text = std::fs::read_to_string(&path).context("docs/confine.md")?;
    let (head, rest) = text.split_once(BEGIN).context("the mark before the table is missing")?;
    let (old, tail) = rest.split_once(END).context("the mark after the table is missing")?;
    if old == table {
        return Ok(());
    }
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}"))?;
        return Ok(());
    }
    // The first column says what this machine permits without a wall; the others are ours.
    let ours = |text: &str| -> Vec<Vec<String>> {
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
        let mut rows: Vec<Vec<String>> = text.lines().map(cells).collect();
        rows.iter_mut().filter(|row| row.len() > 2).for_each(|row| drop(row.remove(2)));
        rows
    };
    anyhow::ensure!(
        ours(old) == ours(table),
        "docs/confine.md has another table; {UPDATE}=1 writes this one:\n{table}"
    );
    Ok(())
}

const fn attack(
    group: &'static str,
    name: &'static str,
    words: &'static str,
    as_user: &'static str,
    as_root: &'static str,
) -> Attack {
    Attack { name, group, words, as_user, as_root }
}

const FILES: &str = "Files outside";
const LATER: &str = "Files that later run outside";
const PROCESSES: &str = "Other processes";
const NETWORK: &str = "Network";
const KERNEL: &str = "Kernel and new rights";

/// All attacks, in the order of the table.
#[rustfmt::skip]
pub(crate) const ATTACKS: &[Attack] = &[
    attack(FILES, "read_secret", "read a secret in the data directory", "y----", "y----"),
    attack(FILES, "write_secret", "write it", "y----", "y----"),
    attack(FILES, "truncate_secret", "empty it", "y----", "y----"),
    attack(FILES, "remove_secret", "remove it", "y----", "y----"),
    attack(FILES, "take_secret", "move it into the working directory", "y----", "y----"),
    attack(FILES, "list_data", "list the data directory", "y----", "y----"),
    attack(FILES, "plant_file", "make a file in it", "y----", "y----"),
    attack(FILES, "by_link", "read through a symbolic link", "y----", "y----"),
    attack(FILES, "by_hard_link", "read through a hard link", "y----", "y----"),
    attack(FILES, "by_dots", "read through `..`", "y----", "y----"),
    attack(FILES, "by_own_root", "read through `/proc/self/root`", "y----", "y----"),
    attack(FILES, "by_parents_root", "read through the parent's `/proc/PID/root`", "y----", "y----"),
    attack(FILES, "by_victims_directory", "read through another process' `/proc/PID/cwd`", "y----", "y----"),
    attack(FILES, "by_swapped_directory", "read through a directory that becomes a \
        link", "y----", "y----"),
    attack(FILES, "change_mode", "change its mode", "yyy--", "yyy--"),
    attack(FILES, "change_times", "change its times", "yyy--", "yyy--"),
    attack(FILES, "change_attributes", "change its attributes", "yyy--", "yyy--"),
    attack(FILES, "see_size", "see its size and times", "yyy--", "yyy--"),
    attack(FILES, "watch_data", "watch the directory (inotify)", "yyy--", "yyy--"),
    attack(FILES, "inherited_file", "read a descriptor that was left open", "y----", "y----"),
    attack(FILES, "inherited_directory", "open a file below a directory that was left \
        open", "y----", "y----"),
    attack(FILES, "read_ssh_key", "read `.ssh`", "y----", "y----"),
    attack(FILES, "read_netrc", "read `.netrc`", "y----", "y----"),
    attack(FILES, "read_cargo_token", "read cargo's credentials", "y----", "y----"),
    attack(FILES, "write_shell_start", "write `.bashrc`", "y----", "y----"),
    attack(FILES, "make_shell_start", "make `.zlogin`", "y----", "y----"),
    attack(FILES, "plant_program", "put a program into `.cargo/bin`", "y----", "y----"),
    attack(FILES, "poison_cache", "change a package in cargo's cache", "y----", "y----"),
    attack(FILES, "read_tmp", "read a file of others in `/tmp`", "y----", "y----"),
    attack(FILES, "write_tmp", "write it", "y----", "y----"),
    attack(FILES, "read_shm", "read a file of others in `/dev/shm`", "y----", "y----"),
    attack(FILES, "read_run_directory", "read the plan of the wall", "y----", "y----"),
    attack(FILES, "read_shadow", "read `/etc/shadow`", "-----", "y----"),
    attack(FILES, "write_system_setting", "write into `/etc`", "-----", "y----"),
    attack(FILES, "write_system_program", "put a program into `/usr/local/bin`", "-----", "y----"),
    attack(FILES, "make_disk_device", "make a device for the disk", "-----", "y----"),
    attack(FILES, "by_handle", "open a file by its handle", "-----", "y----"),
    attack(FILES, "set_user_id_program", "become root by a set-user-id program", "m----", "xxxxx"),
    attack(LATER, "git_hook", "make a git hook", "yyy--", "yyy--"),
    attack(LATER, "git_config", "write `.git/config`", "yyy--", "yyy--"),
    attack(LATER, "replace_git_config", "replace `.git/config`", "yyy--", "yyy--"),
    attack(LATER, "git_commondir", "make `.git/commondir`", "yyy--", "yyy--"),
    attack(LATER, "swap_git", "rename `.git`", "yyy--", "yyy--"),
    attack(LATER, "editor_settings", "write `.vscode/settings.json`", "yyy--", "yyy--"),
    attack(LATER, "agent_settings", "write `.claude/settings.json`", "yyy--", "yyy--"),
    attack(LATER, "shell_hook", "write `.envrc`", "yyy--", "yyy--"),
    attack(LATER, "new_editor_settings", "make `.idea` where there was none", "yyyyy", "yyyyy"),
    attack(PROCESSES, "signal_victim", "signal another process", "y----", "y----"),
    attack(PROCESSES, "stop_victim", "stop it", "y----", "y----"),
    attack(PROCESSES, "signal_parent", "signal the parent (server, shim)", "y----", "y----"),
    attack(PROCESSES, "signal_by_handle", "signal by a process handle", "y----", "y----"),
    attack(PROCESSES, "signal_by_owner", "kill it through the owner of a pipe", "y----", "y----"),
    attack(PROCESSES, "trace_victim", "trace it", "y----", "y----"),
    attack(PROCESSES, "read_environment", "read its environment", "y----", "y----"),
    attack(PROCESSES, "open_memory", "open its memory", "y----", "y----"),
    attack(PROCESSES, "read_memory", "read its memory", "y----", "y----"),
    attack(PROCESSES, "take_descriptor", "take a descriptor from it", "y----", "y----"),
    attack(PROCESSES, "open_descriptor", "open its files by `/proc/PID/fd`", "y----", "y----"),
    attack(PROCESSES, "see_arguments", "see its arguments", "yyyyy", "yyyyy"),
    attack(PROCESSES, "see_connections", "see its connections (`/proc/PID/net`)", "yyyyy", "yyyyy"),
    attack(PROCESSES, "see_mounts", "see its mounts (`/proc/PID/mountinfo`)", "yyyyy", "yyyyy"),
    attack(PROCESSES, "limit_victim", "set its limits", "y----", "y----"),
    attack(PROCESSES, "slow_victim", "lower its priority", "y----", "y----"),
    attack(PROCESSES, "pin_victim", "choose its processor", "yyyyy", "y----"),
    attack(PROCESSES, "offer_to_memory_killer", "offer it to the memory killer", "y----", "y----"),
    attack(PROCESSES, "write_terminal", "write to another terminal", "yy---", "yy---"),
    attack(NETWORK, "tcp", "TCP to another program", "y----", "y----"),
    attack(NETWORK, "multipath_tcp", "Multipath TCP", "m----", "m----"),
    attack(NETWORK, "mapped_tcp", "TCP by a mapped address", "y----", "y----"),
    attack(NETWORK, "fast_open", "TCP Fast Open", "m----", "m----"),
    attack(NETWORK, "fast_open_option", "TCP Fast Open by an option", "m----", "m----"),
    attack(NETWORK, "allowed_port_elsewhere", "the proxy's port on another host", "yy---", "yy---"),
    attack(NETWORK, "udp", "UDP", "y----", "y----"),
    attack(NETWORK, "raw_socket", "a raw socket", "-----", "y----"),
    attack(NETWORK, "packet_socket", "a packet socket", "-----", "y----"),
    attack(NETWORK, "vsock", "a socket to the host of the virtual machine", "m----", "m----"),
    attack(NETWORK, "kernel_crypto", "a socket to the kernel's cryptography", "m----", "m----"),
    attack(NETWORK, "kernel_events", "a netlink socket to the kernel's events", "m----", "m----"),
    attack(NETWORK, "unix_stream", "a Unix socket (docker, ssh-agent, D-Bus)", "y----", "y----"),
    attack(NETWORK, "unix_datagram", "a Unix datagram socket (logs)", "y----", "y----"),
    attack(NETWORK, "abstract_unix", "an abstract Unix socket", "y----", "y----"),
    attack(NETWORK, "egress_socket", "the socket of the egress process", "y----", "y----"),
    attack(NETWORK, "reachable_port", "listen where others can connect", "y----", "y----"),
    attack(NETWORK, "proxy_tunnel", "a host that is not allowed, by CONNECT", "y----", "y----"),
    attack(NETWORK, "proxy_forward", "the same with the name of an allowed host in \
        `Host`", "y----", "y----"),
    attack(NETWORK, "proxy_origin_form", "the same without naming a host in the \
        request", "y----", "y----"),
    attack(KERNEL, "io_uring", "io_uring", "m----", "m----"),
    attack(KERNEL, "user_namespace", "a new user namespace", "m----", "m----"),
    attack(KERNEL, "namespace_by_clone", "the same by clone", "m----", "m----"),
    attack(KERNEL, "namespace_by_clone3", "the same by clone3", "m----", "m----"),
    attack(KERNEL, "mount_tmpfs", "mount", "-----", "y----"),
    attack(KERNEL, "mount_in_namespace", "mount in a new namespace", "m----", "m----"),
    attack(KERNEL, "unmount_cover", "unmount what covers a directory", "-----", "-----"),
    attack(KERNEL, "change_root", "chroot", "-----", "y----"),
    attack(KERNEL, "enter_parents_namespace", "enter the parent's namespace", "-----", "y----"),
    attack(KERNEL, "kernel_program", "load a BPF map", "m----", "m----"),
    attack(KERNEL, "watch_processor", "measure another process (perf)", "m----", "m----"),
    attack(KERNEL, "user_keys", "the user's keys in the kernel", "m----", "m----"),
    attack(KERNEL, "shared_memory", "shared memory of System V", "y----", "y----"),
    attack(KERNEL, "message_queue", "a message queue of POSIX", "y----", "y----"),
    attack(KERNEL, "fault_handler", "userfaultfd", "m----", "m----"),
    attack(KERNEL, "kernel_log", "the kernel's log", "m----", "m----"),
    attack(KERNEL, "kernel_setting", "write a sysctl", "-----", "y----"),
    attack(KERNEL, "kernel_trigger", "the kernel's emergency keys", "-----", "m----"),
    attack(KERNEL, "kernel_module", "load a module", "-----", "m----"),
    attack(KERNEL, "host_name", "set the host's name", "-----", "y----"),
    attack(KERNEL, "control_groups", "move processes between control groups", "-----", "m----"),
    attack(KERNEL, "other_user", "become another user", "-----", "y----"),
    attack(KERNEL, "calls_of_32_bits", "system calls of 32 bits", "m----", "m----"),
];
