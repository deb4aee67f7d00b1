//! A network of its own, in which nothing is but the doors to the egress process.

use std::io::{self, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType,
    recv, send, sendmsg, socket,
};

use crate::plan::Plan;
use crate::stage::StageError;

/// The answer of the egress process that took over every listener. Anything else is the reason why
/// it did not.
pub(crate) const TAKEN: u8 = b'+';

/// The longest wait for an egress process that listens already. It answers at once or is gone.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait for an egress process that we start. Its programs are still being executed
/// while we build the rest, which takes seconds on a machine that is very busy.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The most that is read of the reason why there is no egress process.
const MAX_REASON_BYTES: u64 = 4 * 1024;

/// The way to the egress process, which may still be starting.
pub(crate) struct Egress {
    stream: UnixStream,
    /// The process that starts it and ends then.
    starter: Option<Child>,
}

/// Starts the egress process or connects to it, as the plan says, before its path and its program
/// are out of sight. Does not wait for it: to execute it takes as long as to build the rest.
pub(crate) fn reach_egress(plan: &Plan) -> Result<Option<Egress>, StageError> {
    match (&plan.egress, &plan.doors.socket) {
        (Some(words), _) => start(words).map(Some),
        (None, Some(path)) => connect(path).map(Some),
        (None, None) => Ok(None),
    }
}

/// Starts the egress process, with our connection as its stdin. The process that we start ends at
/// once and leaves the real one to the nearest ancestor that adopts orphans: the shim. Its stderr
/// is the program's.
fn start(words: &[String]) -> Result<Egress, StageError> {
    let fail = |why: &dyn ToString| StageError::new(STARTING, why.to_string());
    let (program, arguments) = words.split_first().ok_or_else(|| fail(&"it has no program"))?;
    let (stream, theirs) = UnixStream::pair().map_err(|error| fail(&error))?;
    limit(&stream, START_TIMEOUT).map_err(|error| fail(&error))?;
    let starter = Command::new(program)
        .args(arguments)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| fail(&error))?;
    Ok(Egress { stream, starter: Some(starter) })
}

const STARTING: &str = "start the egress process";

fn connect(path: &Path) -> Result<Egress, StageError> {
    // By its short name: the whole path may be longer than an address of a socket can be. The
    // working directory is entered by name later.
    let connected = match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => {
            std::env::set_current_dir(dir).and_then(|()| UnixStream::connect(name))
        }
        (_, _) => Err(io::ErrorKind::InvalidInput.into()),
    };
    connected
        .and_then(|stream| {
            limit(&stream, HAND_OVER_TIMEOUT)?;
            Ok(Egress { stream, starter: None })
        })
        .map_err(|error| {
            StageError::path("reach the egress process at", path, error)
                .next("it must run before the program starts")
        })
}

fn limit(stream: &UnixStream, timeout: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}

/// Brings loopback up and hands the doors to the egress process.
///
/// A socket belongs to the network in which it was made. A listener made here from which the egress
/// process accepts is a door that leads to it and nowhere else, without a relay inside.
pub(crate) fn open_doors(plan: &Plan, egress: Option<Egress>) -> Result<(), StageError> {
    loopback_up().map_err(|error| StageError::new("bring loopback up", error))?;
    let ports: Vec<u16> = plan.doors.ports().collect();
    let Some(egress) = egress else {
        return if ports.is_empty() {
            Ok(())
        } else {
            Err(StageError::new("open the doors", "the plan names ports and no egress process"))
        };
    };
    for port in ports {
        let opened = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener =
            opened.map_err(|error| StageError::new(format!("open the door {port}"), error))?;
        egress.hand_over(port, &listener)?;
    }
    egress.finish()
}

/// Hands free ports of this machine to the egress process, for the tier without a network of its
/// own, and writes down which they are.
pub(crate) fn lend_ports(plan: &mut Plan, egress: Option<Egress>) -> Result<(), StageError> {
    let Some(egress) = egress else { return Ok(()) };
    for door in [&mut plan.doors.proxy, &mut plan.doors.model].into_iter().flatten() {
        let opened = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) = opened.map_err(|error| StageError::new("open a door", error))?;
        egress.hand_over(*door, &listener)?;
        *door = port;
    }
    egress.finish()
}

impl Egress {
    /// Hands a listener over as the door of this number.
    fn hand_over(&self, port: u16, listener: &TcpListener) -> Result<(), StageError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [listener.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let number = port.to_be_bytes();
        match sendmsg(&self.stream, &[IoSlice::new(&number)], &mut control, SendFlags::empty()) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.refused(&error.into())),
        }
    }

    /// Waits until the egress process has every listener.
    fn finish(mut self) -> Result<(), StageError> {
        let mut answer = [0];
        match (&self.stream).read_exact(&mut answer) {
            Ok(()) if answer == [TAKEN] => {}
            Ok(()) => return Err(self.failed(&self.rest_of_reason(&answer))),
            Err(error) => return Err(self.refused(&error)),
        }
        // The program gets no child that it did not start. This one has ended by now.
        match self.starter.as_mut().map(Child::wait) {
            Some(Ok(status)) if status.success() => Ok(()),
            Some(Ok(status)) => Err(self.failed(&format!("its starter ended with {status}"))),
            Some(Err(error)) => Err(self.failed(&error)),
            None => Ok(()),
        }
    }

    /// An egress process that is gone may have said why.
    fn refused(&self, error: &io::Error) -> StageError {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WouldBlock};
        match error.kind() {
            WouldBlock => self.failed(&"it does not answer"),
            UnexpectedEof | ConnectionReset | BrokenPipe => match self.rest_of_reason(&[]) {
                reason if reason.is_empty() => self.failed(&"it has ended"),
                reason => self.failed(&reason),
            },
            _ => self.failed(error),
        }
    }

    fn failed(&self, why: &dyn ToString) -> StageError {
        let doing = match self.starter {
            Some(_) => STARTING,
            None => "hand the doors to the egress process",
        };
        StageError::new(doing, why.to_string())
    }

    fn rest_of_reason(&self, begun: &[u8]) -> String {
        let mut reason = begun.to_vec();
        // What could be read is the reason, however the reading ended.
        let _ended = (&self.stream).take(MAX_REASON_BYTES).read_to_end(&mut reason);
        String::from_utf8_lossy(&reason).trim().to_owned()
    }
}

/// The loopback of a new network is down. One netlink message (`RTM_NEWLINK`, `IFF_UP`) changes it.
fn loopback_up() -> io::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST_ACK: u16 = 5;
    const LENGTH: u32 = 32;
    const LOOPBACK: i32 = 1;
    const IFF_UP: u32 = 1;
    let netlink = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    let mut message = Vec::with_capacity(LENGTH as usize);
    message.extend(LENGTH.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    // Sequence and port, then family and type of the link: none.
    message.extend([0; 12]);
    message.extend(LOOPBACK.to_ne_bytes());
    // The flags, and which of them to change.
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    send(&netlink, &message, SendFlags::empty())?;
    let mut answer = [0; 256];
    let (length, _) = recv(&netlink, &mut answer, RecvFlags::empty())?;
    // The header has 16 bytes; the error code follows it.
    match answer.get(16..20).filter(|_| length >= 20).and_then(|code| code.try_into().ok()) {
        Some(code) => match i32::from_ne_bytes(code) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        },
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
