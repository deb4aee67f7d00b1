//! A network of its own, in which nothing is but the doors to the egress process.

use std::io::{self, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType,
    recv, send, sendmsg, socket,
};

use crate::plan::Plan;
use crate::stage::StageError;

/// The answer of the egress process to a listener that it took over.
pub(crate) const TAKEN: u8 = b'+';

/// The longest wait for the egress process. It answers at once or is gone.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the egress process and waits until it listens. The process that we start ends then and
/// leaves the real one to the nearest ancestor that adopts orphans: the shim. It says on stdout why
/// it could not; its stderr is the program's.
pub(crate) fn start_egress(words: &[String]) -> Result<(), StageError> {
    let fail = |why: String| StageError::new("start the egress process", why);
    let (program, arguments) =
        words.split_first().ok_or_else(|| fail("it has no program".to_owned()))?;
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| fail(error.to_string()))?;
    if started.status.success() {
        return Ok(());
    }
    Err(fail(String::from_utf8_lossy(&started.stdout).trim().to_owned()))
}

/// Connects to the egress process, where the plan has one.
pub(crate) fn connect(plan: &Plan) -> Result<Option<UnixStream>, StageError> {
    let Some(path) = &plan.doors.socket else { return Ok(None) };
    // By its short name: the whole path may be longer than an address of a socket can be. The
    // working directory is entered by name later.
    let (dir, name) = (path.parent(), path.file_name());
    let connected = match (dir, name) {
        (Some(dir), Some(name)) => {
            std::env::set_current_dir(dir).and_then(|()| UnixStream::connect(name))
        }
        (_, _) => Err(io::ErrorKind::InvalidInput.into()),
    };
    let connected = connected.and_then(|stream| {
        stream.set_read_timeout(Some(HAND_OVER_TIMEOUT))?;
        stream.set_write_timeout(Some(HAND_OVER_TIMEOUT))?;
        Ok(stream)
    });
    connected.map(Some).map_err(|error| {
        StageError::path("reach the egress process at", path, error)
            .next("it must run before the program starts")
    })
}

/// Brings loopback up and hands the doors to the egress process.
///
/// A socket belongs to the network in which it was made. A listener made here from which the egress
/// process accepts is a door that leads to it and nowhere else, without a relay inside.
pub(crate) fn open_doors(plan: &Plan, egress: Option<UnixStream>) -> Result<(), StageError> {
    loopback_up().map_err(|error| StageError::new("bring loopback up", error))?;
    let ports: Vec<u16> = plan.doors.ports().collect();
    let Some(stream) = egress else {
        return if ports.is_empty() {
            Ok(())
        } else {
            Err(StageError::new("open the doors", "the plan names ports and no egress process"))
        };
    };
    for port in ports {
        let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        listening.and_then(|listener| hand_over(&stream, port, &listener)).map_err(|error| {
            StageError::new(format!("hand port {port} to the egress process"), error)
        })?;
    }
    Ok(())
}

/// Hands free ports of this machine to the egress process, for the tier without a network of its
/// own, and writes down which they are.
pub(crate) fn lend_ports(plan: &mut Plan, egress: Option<UnixStream>) -> Result<(), StageError> {
    let Some(stream) = egress else { return Ok(()) };
    for door in [&mut plan.doors.proxy, &mut plan.doors.model].into_iter().flatten() {
        *door = lend_port(&stream, *door)
            .map_err(|error| StageError::new("hand a port to the egress process", error))?;
    }
    Ok(())
}

fn lend_port(egress: &UnixStream, door: u16) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    hand_over(egress, door, &listener)?;
    Ok(listener.local_addr()?.port())
}

/// Hands a listener over as the door of this number.
fn hand_over(mut egress: &UnixStream, port: u16, listener: &TcpListener) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(egress, &[IoSlice::new(&port.to_be_bytes())], &mut control, SendFlags::empty())?;
    let mut answer = [0];
    egress.read_exact(&mut answer)?;
    if answer == [TAKEN] { Ok(()) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
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
