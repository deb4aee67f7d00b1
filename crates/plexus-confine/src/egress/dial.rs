//! Resolves a host, checks the addresses, and connects to one of those addresses. The name is not
//! resolved a second time, so a name that changes between the check and the connection gains
//! nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;

use super::upstream::UpstreamProxy;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest wait for the name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Connects to an allowed host. The error is the sentence that the program reads.
pub(crate) async fn dial(
    host: &str,
    port: u16,
    upstream: Option<&UpstreamProxy>,
) -> Result<TcpStream, String> {
    // A name is resolved behind that proxy. An address is known here already.
    let is_outside = host.parse().map_or(true, is_public);
    if let Some(proxy) = upstream.filter(|proxy| proxy.serves(host) && is_outside) {
        let dialled = proxy.dial(host, port).await;
        return dialled.map_err(|error| format!("{host} could not be reached: {error}"));
    }
    let looked_up = tokio::time::timeout(RESOLVE_TIMEOUT, tokio::net::lookup_host((host, port)));
    let found: Vec<SocketAddr> = match looked_up.await {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(error)) => return Err(format!("{host} could not be resolved: {error}")),
        Err(_elapsed) => return Err(format!("{host} could not be resolved in time")),
    };
    // A user who lists an address, or localhost, means it. A name that leads to this machine or its
    // networks was not meant that way: metadata services and the user's own servers are there.
    let is_meant = host.parse::<IpAddr>().is_ok() || host == "localhost";
    let usable: Vec<_> = found.into_iter().filter(|at| is_meant || is_public(at.ip())).collect();
    if usable.is_empty() {
        return Err(format!("{host} is an address of this machine or of a private network"));
    }
    let dialled = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(usable.as_slice()));
    let stream = match dialled.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(format!("{host} could not be reached: {error}")),
        Err(_elapsed) => return Err(format!("{host} did not answer")),
    };
    // Without it a tunnel waits 40 ms for each small message.
    stream.set_nodelay(true).map_err(|error| format!("{host} could not be reached: {error}"))?;
    Ok(stream)
}

/// Whether an address belongs to the internet and not to this machine or a private network.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = a == 192 && b == 0 && c == 0;
    let is_benchmark = a == 198 && (18..20).contains(&b);
    !(a == 0
        || a >= 224
        || is_shared
        || is_protocol
        || is_benchmark
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Addresses of version 4 in the clothes of version 6: mapped, compatible, NAT64, 6to4.
    let parts = address.segments();
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => is_public_v4(inner(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(inner(high, low)),
        [0x2002, high, low, ..] => is_public_v4(inner(high, low)),
        // Only 2000::/3 is handed out.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_every_form() {
        for (address, expected) in [
            ("8.8.8.8", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
            ("::1", false),
            ("::", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("64:ff9b::a9fe:a9fe", false),
            ("2002:7f00:1::", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("ff02::1", false),
            ("2606:4700::1111", true),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
