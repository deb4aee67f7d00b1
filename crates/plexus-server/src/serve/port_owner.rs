//! Finds out which process has a port, for the message that says that it is taken. Linux tells in
//! `/proc`; on other systems the process stays unknown.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Names the process that listens on `address`, such as `process 4711 (plexus serve)`, if it is
/// ours to see.
pub(super) fn find(address: SocketAddr) -> Option<String> {
    let table = if address.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let inode = listening_inode(&fs::read_to_string(table).ok()?, address)?;
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pid = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| holds(*pid, &wanted))?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line
        .split(|byte| *byte == 0)
        .take(2)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    Some(format!("process {pid} ({})", plexus_render::sanitize::one_line(words.join(" ").trim())))
}

fn holds(pid: u32, wanted: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors
        .flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == wanted))
}

/// Reads the kernel's table: `sl local_address rem_address st … inode`, the state of a listener is
/// `0A`.
fn listening_inode(table: &str, address: SocketAddr) -> Option<u64> {
    const LISTENING: &str = "0A";
    const INODE: usize = 9;
    let port = format!(":{:04X}", address.port());
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state) = (*fields.get(1)?, *fields.get(3)?);
        let host = local.strip_suffix(port.as_str())?;
        let same = host.bytes().all(|byte| byte == b'0') || host == kernel_form(address.ip());
        (state == LISTENING && same).then(|| fields.get(INODE)?.parse().ok()).flatten()
    })
}

/// The kernel writes an address as words in its own byte order.
fn kernel_form(ip: IpAddr) -> String {
    let words = |bytes: &[u8]| {
        let words = bytes
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        words.map(|word| format!("{word:08X}")).collect()
    };
    match ip {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&ip.octets()),
    }
}
