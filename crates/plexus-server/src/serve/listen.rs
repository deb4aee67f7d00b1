//! Takes the port, or says who has it and what to do.

use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use plexus_client::PORT_TAKEN;
use tokio::net::TcpListener;

use super::port_owner;
use crate::config::Config;

/// Binds the configured address.
///
/// # Errors
/// When the address is not one, can be reached from other machines without `allow_non_loopback`, or
/// is taken.
pub async fn bind(config: &Config) -> Result<TcpListener> {
    let address = resolve(&config.listen).await?;
    if !address.ip().is_loopback() && !config.allow_non_loopback {
        bail!(
            "could not listen on {address}: other machines could reach it, and whoever has the \
             token can run programs here; set tls.listen to {address} and listen to a loopback \
             address, or use --allow-non-loopback if it must be without encryption"
        );
    }
    take(address).await
}

/// Binds the address for TLS, if one is configured. It may be reachable from other machines without
/// `allow_non_loopback`, because everything on it is encrypted.
///
/// # Errors
/// When the address is not valid, or is taken.
pub async fn bind_tls(config: &Config) -> Result<Option<TcpListener>> {
    if config.tls.listen.is_empty() {
        return Ok(None);
    }
    take(resolve(&config.tls.listen).await?).await.map(Some)
}

async fn take(address: SocketAddr) -> Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let owner = port_owner::find(address).unwrap_or_else(|| "another program".to_owned());
            bail!(
                "could not listen on {address}: {owner} {PORT_TAKEN}; if it is a Plexus server, \
                 use it (`plexus ps`) or stop it (`plexus stop`), \
                 else choose another port: --listen 127.0.0.1:0 takes a free one"
            )
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!(
                "could not listen on {address}: {error}; ports under 1024 are for root, choose a \
                 higher one with --listen"
            )
        }
        Err(error) => Err(error).with_context(|| format!("could not listen on {address}")),
    }
}

async fn resolve(listen: &str) -> Result<SocketAddr> {
    let found = tokio::net::lookup_host(listen)
        .await
        .with_context(|| format!("could not listen on {listen:?}: it is not HOST:PORT"))?;
    // `localhost` may be both; the doors' own URL is the IPv4 one.
    let all: Vec<SocketAddr> = found.collect();
    let first = all.iter().find(|address| address.is_ipv4()).or(all.first()).copied();
    first.with_context(|| format!("could not listen on {listen:?}: it has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlsConfig;

    fn config(listen: &str) -> Config {
        Config { listen: listen.into(), ..Config::default() }
    }

    #[tokio::test]
    async fn an_address_that_others_can_reach_needs_leave() {
        let error = bind(&config("0.0.0.0:0")).await.unwrap_err().to_string();
        assert!(error.contains("--allow-non-loopback"), "{error}");
        assert!(error.contains("tls.listen"), "{error}");
        let allowed = Config { allow_non_loopback: true, ..config("0.0.0.0:0") };
        assert!(bind(&allowed).await.is_ok());
        assert!(bind_tls(&config("127.0.0.1:0")).await.unwrap().is_none());
        let tls = TlsConfig { listen: "0.0.0.0:0".into(), ..TlsConfig::default() };
        let tls = Config { tls, ..config("127.0.0.1:0") };
        assert!(bind_tls(&tls).await.unwrap().is_some(), "what is encrypted needs no leave");
    }

    #[tokio::test]
    async fn a_taken_port_says_who_has_it_and_what_to_do() {
        let first = bind(&config("127.0.0.1:0")).await.unwrap();
        let taken = first.local_addr().unwrap().to_string();
        let error = bind(&config(&taken)).await.unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert!(error.contains("--listen 127.0.0.1:0"), "{error}");
    }

    #[tokio::test]
    async fn what_is_no_address_is_said() {
        for listen in ["", "4445", "no such host:1", "127.0.0.1:99999"] {
            let error = format!("{:#}", bind(&config(listen)).await.unwrap_err());
            assert!(error.contains("could not listen on"), "{error}");
        }
    }
}
