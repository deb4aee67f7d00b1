//! Which process opened a connection, as the kernel tells it.
//!
//! TCP has no credentials of the peer. The table of connections in the program's network names the
//! inode of its socket, and `/proc` says who holds that inode. Whoever is outside the wall and
//! belongs to the same user may read both.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// The most processes that are looked at. A machine with more answers "not known".
const MAX_PROCESSES: usize = 32 * 1024;
/// The most open files of one process that are looked at.
const MAX_FILES: usize = 4 * 1024;
/// The state of an established connection, in the kernel's table.
const ESTABLISHED: &str = "01";

/// A connection of the program to a door, by its two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The program's end.
    pub program: SocketAddr,
    /// Our end.
    pub door: SocketAddr,
}

/// A process, for good: the kernel may give its number to another one later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Holder {
    /// When it started, in the kernel's ticks since the system did.
    pub started: u64,
    /// Its number.
    pub pid: i32,
}

impl Connection {
    /// Finds the process that holds the program's end: the oldest, where several share it. It looks
    /// into the network of `inside`, a process of the program. `None` when the connection is over
    /// or the kernel does not let us look.
    ///
    /// It reads the files of every process of this user, so it blocks for some milliseconds.
    #[must_use]
    pub fn process(&self, inside: i32) -> Option<Holder> {
        let tables = ["tcp", "tcp6"];
        let inode = tables.into_iter().find_map(|table| {
            let text = fs::read_to_string(format!("/proc/{inside}/net/{table}")).ok()?;
            self.inode_in(&text)
        })?;
        let socket = format!("socket:[{inode}]");
        let entries = fs::read_dir("/proc").ok()?.flatten().take(MAX_PROCESSES);
        let holders = entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let is_held = holds(&entry.path(), &socket);
            is_held.then(|| started_at(&entry.path()))?.map(|started| Holder { started, pid })
        });
        // Our own end has another inode, so this process is not among them.
        holders.min()
    }

    /// Finds the socket of the program's end in the kernel's table of connections.
    fn inode_in(&self, table: &str) -> Option<u64> {
        table.lines().skip(1).find_map(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
            let (own, other) = (port(fields.next()?)?, port(fields.next()?)?);
            let is_this = fields.next()? == ESTABLISHED
                && (own, other) == (self.program.port(), self.door.port());
            // After the state: queues, timer, retransmits, user, timeout, inode.
            let inode = fields.nth(5).filter(|_| is_this)?.parse().ok()?;
            (inode != 0).then_some(inode)
        })
    }
}

/// Whether a process has this socket open. Its files are readable to the same user only.
fn holds(process: &Path, socket: &str) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files
        .take(MAX_FILES)
        .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == socket))
}

/// When a process started, in the kernel's ticks.
fn started_at(process: &Path) -> Option<u64> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name is in parentheses and may contain anything, parentheses too.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_found_by_its_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (door, peer) = listener.accept().unwrap();
        let connection = Connection { program: peer, door: door.local_addr().unwrap() };
        let this = std::process::id().try_into().unwrap();
        assert_eq!(connection.process(this).map(|holder| holder.pid), Some(this));
        // The other way round is the door's own end, which is not a connection of a program.
        let none = Connection { program: peer, door: SocketAddr::from(([127, 0, 0, 1], 1)) };
        assert_eq!(none.process(this), None);
        drop((program, door));
    }

    #[test]
    fn the_table_of_connections_is_read_by_ports_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
            \x20  0: 0100007F:2008 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 11 1\n\
            \x20  1: 0100007F:9C40 0100007F:2008 06 00000000:00000000 00:00000000 00000000 0 0 0 1\n\
            \x20  2: 0100007F:9C41 0100007F:2008 01 00000000:00000000 00:00000000 00000000 0 0 42 1\n\
            \x20  3: 0100007F:2008 0100007F:9C41 01 00000000:00000000 00:00000000 00000000 0 0 43 1\n\
            \x20  4: broken\n";
        let find = |port: u16| {
            let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
            Connection { program: at(port), door: at(8200) }.inode_in(table)
        };
        assert_eq!(find(0x9C41), Some(42));
        assert_eq!(find(0x9C40), None, "it has ended");
        assert_eq!(find(0x9C42), None);
    }
}
