//! seccomp: refuses the system calls that the other layers do not see.
//!
//! A list of refusals, not of permissions: a build tool that uses a new call must not die of it.
//! Several filters, because seccompiler makes one program for one answer; the kernel runs all of
//! them, and the strictest answer counts. A call of another architecture (32 bits) ends the
//! process.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op,
    SeccompCondition as Condition, SeccompFilter, SeccompRule as Rule, apply_filter, sock_filter,
};

use crate::machine::Tier;
use crate::plan::Plan;
use crate::stage::StageError;

type Rules = BTreeMap<i64, Vec<Rule>>;

/// Refused whatever the arguments are.
const REFUSED: &[i64] = &[
    // The kernel's own: keys, programs in it, modules, other kernels, its log.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    // The machine.
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Files past every path.
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    // Other processes.
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    // Namespaces and mounts.
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
];

/// Shared memory, queues and semaphores that all programs of a user share, where there is no IPC
/// namespace.
const SHARED_WITH_OTHERS: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Answered as if the kernel did not have them: programs then go on without. io_uring makes sockets
/// that no filter sees, and the flags of clone3 lie in memory, where no filter looks.
const ABSENT: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_clone3,
];

/// Every namespace but that of time, whose flag means something else to `clone`.
const NEW_NAMESPACES: &[u64] = &[
    0x0002_0000, // mounts
    0x0200_0000, // cgroups
    0x0400_0000, // host name
    0x0800_0000, // IPC
    0x1000_0000, // users
    0x2000_0000, // processes
    0x4000_0000, // network
];
const NEW_TIME: u64 = 0x80;

/// Puts input into a terminal, and pastes into a console.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;

/// A connection that begins with data: `connect` is never called, and Landlock does not see it.
const MSG_FASTOPEN: u64 = 0x2000_0000;

/// Restricts this thread and all that comes from it.
pub(crate) fn restrict(plan: &Plan) -> Result<(), StageError> {
    let fail = |error: seccompiler::Error| StageError::new("filter system calls", error);
    let refused = refusals(plan.tier).map_err(|error| fail(error.into()))?;
    let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
    let mut programs = vec![
        compile(absent, libc::ENOSYS).map_err(|error| fail(error.into()))?,
        compile(refused, libc::EPERM).map_err(|error| fail(error.into()))?,
    ];
    if cfg!(target_arch = "x86_64") {
        programs.push(no_x32());
    }
    programs.iter().try_for_each(|program| apply_filter(program)).map_err(fail)
}

fn refusals(tier: Tier) -> Result<Rules, BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    if tier == Tier::Landlock {
        rules.extend(SHARED_WITH_OTHERS.iter().map(|call| (*call, Vec::new())));
    }
    // Limits of another process: a limit of processor time is a way to kill it. 0 is oneself.
    let limits = vec![word(0, Op::Ne, 0)?, Condition::new(2, Len::Qword, Op::Ne, 0)?];
    rules.insert(libc::SYS_prlimit64, vec![Rule::new(limits)?]);
    rules.insert(libc::SYS_ioctl, any(1, &[TIOCSTI, TIOCLINUX], |request| (Op::Eq, request))?);
    rules.insert(libc::SYS_clone, any(0, NEW_NAMESPACES, |bit| (Op::MaskedEq(bit), bit))?);
    let mut new = any(0, NEW_NAMESPACES, |bit| (Op::MaskedEq(bit), bit))?;
    new.extend(any(0, &[NEW_TIME], |bit| (Op::MaskedEq(bit), bit))?);
    rules.insert(libc::SYS_unshare, new);
    rules.insert(libc::SYS_socket, sockets(tier)?);
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        let fast_open = any(flags, &[MSG_FASTOPEN], |bit| (Op::MaskedEq(bit), bit))?;
        rules.insert(call, fast_open);
    }
    // The same by an option of the socket, after which `connect` sends nothing yet.
    const IPPROTO_TCP: u64 = 6;
    const TCP_FASTOPEN_CONNECT: u64 = 30;
    const TCP_ULP: u64 = 31;
    rules.insert(
        libc::SYS_setsockopt,
        [TCP_FASTOPEN_CONNECT, TCP_ULP]
            .into_iter()
            .map(|option| Rule::new(vec![word(1, Op::Eq, IPPROTO_TCP)?, word(2, Op::Eq, option)?]))
            .collect::<Result<_, _>>()?,
    );
    Ok(rules)
}

/// Every socket but TCP, the listing of interfaces and, in a network of its own, UDP and Unix
/// sockets. Families that network namespaces do not divide (`AF_VSOCK` reaches the host of a
/// virtual machine) are refused in every tier.
fn sockets(tier: Tier) -> Result<Vec<Rule>, BackendError> {
    const UNIX: u64 = 1;
    const INET: u64 = 2;
    const INET6: u64 = 10;
    const NETLINK: u64 = 16;
    const TCP: u64 = 6;
    const UDP: u64 = 17;
    const DATAGRAM: u64 = 2;
    const RAW: u64 = 3;
    /// The type of a socket is in the low four bits. The bits above are flags.
    const TYPE: u64 = 0xf;
    let (family, kind, protocol) = (0, 1, 2);
    let has_own_network = match tier {
        Tier::Full => true,
        Tier::Landlock => false,
    };
    let mut unknown = vec![];
    for known in [INET, INET6, NETLINK] {
        unknown.push(word(family, Op::Ne, known)?);
    }
    if has_own_network {
        unknown.push(word(family, Op::Ne, UNIX)?);
    }
    let mut rules = vec![Rule::new(unknown)?];
    for inet in [INET, INET6] {
        let of = |mut more: Vec<Condition>| {
            more.push(word(family, Op::Eq, inet)?);
            Rule::new(more)
        };
        for kinds in if has_own_network { &[RAW][..] } else { &[DATAGRAM, RAW] } {
            rules.push(of(vec![word(kind, Op::MaskedEq(TYPE), *kinds)?])?);
        }
        for bit in [4, 8] {
            rules.push(of(vec![word(kind, Op::MaskedEq(bit), bit)?])?);
        }
        // Multipath TCP and SCTP are streams that Landlock does not see.
        let mut other = vec![word(protocol, Op::Ne, 0)?, word(protocol, Op::Ne, TCP)?];
        if has_own_network {
            other.push(word(protocol, Op::Ne, UDP)?);
        }
        rules.push(of(other)?);
    }
    let interfaces = vec![word(family, Op::Eq, NETLINK)?, word(protocol, Op::Ne, 0)?];
    rules.push(Rule::new(interfaces)?);
    Ok(rules)
}

fn word(index: u8, op: Op, value: u64) -> Result<Condition, BackendError> {
    Condition::new(index, Len::Dword, op, value)
}

/// Rules of which one has to hold: an argument compared with each value.
fn any(
    index: u8,
    values: &[u64],
    op: impl Fn(u64) -> (Op, u64),
) -> Result<Vec<Rule>, BackendError> {
    let one = |value: &u64| {
        let (op, value) = op(*value);
        Rule::new(vec![word(index, op, value)?])
    };
    values.iter().map(one).collect()
}

fn compile(rules: Rules, errno: i32) -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?.try_into()
}

/// Refuses every call by its x32 number, under which the filters above would not know it.
fn no_x32() -> BpfProgram {
    const LOAD_CALL_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const FIRST_X32: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let line = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    vec![
        line(LOAD_CALL_NUMBER, 0, 0),
        line(JUMP_IF_AT_LEAST, 1, FIRST_X32),
        line(RETURN, 0, ALLOW),
        line(RETURN, 0, ERRNO | libc::ENOSYS.unsigned_abs()),
    ]
}
