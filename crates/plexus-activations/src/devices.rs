//! The part of `identity` about devices: a phone is paired by a one-time code, listed, and taken
//! back by name.

use std::sync::Arc;

use plexus_core::CallError;
use plexus_engine::Engine;
use plexus_engine::identity::Identity;
use plexus_engine::settings::Settings;
use plexus_engine::start::Address;
use plexus_store::{Device, Store};
use plexus_wire::{DeviceList, PairParams, PairedDevice, Pairing, UnpairParams, Unpaired};

/// What a device is called that nobody named.
const DEFAULT_NAME: &str = "phone";

/// The page of a device, below the server's address.
const PAGE: &str = "phone";

/// Pairs devices and takes them back.
#[derive(Clone)]
pub(crate) struct Devices {
    store: Arc<dyn Store>,
    settings: Arc<Settings>,
    identity: Arc<Identity>,
    address: Arc<Address>,
}

impl Devices {
    pub(crate) fn new(engine: &Engine) -> Self {
        Self {
            store: Arc::clone(&engine.store),
            settings: Arc::clone(&engine.settings),
            identity: Arc::clone(&engine.identity),
            address: Arc::clone(&engine.address),
        }
    }

    /// Makes a code for a device. The device exists once it has used the code.
    pub(crate) async fn pair(&self, params: PairParams) -> Result<Pairing, CallError> {
        let known = self.store.devices().await?;
        let taken = |name: &str| known.iter().any(|device| device.name == name);
        let name = match params.name {
            Some(name) if taken(&name) => {
                return Err(CallError::conflict(format_args!(
                    "pair {name:?}: another device has this name"
                ))
                .with_field("name")
                .with_hint("choose another name, or take that one back: plexus devices revoke"));
            }
            Some(name) => name,
            None => free_name(taken),
        };
        let reach = &self.settings.reach;
        let url = reach.url.clone().or_else(|| self.address.get()).ok_or_else(|| {
            CallError::unavailable("pair a device: this server does not listen anywhere")
        })?;
        let (code, expires_at) = self.identity.pair_code(&name)?;
        Ok(Pairing {
            name,
            link: format!("{url}/{PAGE}#code={}", code.expose()),
            code: code.expose().to_owned(),
            expires_at: expires_at.into(),
            reachable: !is_loopback(&url),
            fingerprint: reach.fingerprint.clone(),
        })
    }

    pub(crate) async fn devices(&self) -> Result<DeviceList, CallError> {
        let view = |Device { id, name, paired_at, revoked_at: _ }| PairedDevice {
            id,
            name,
            paired_at: paired_at.into(),
        };
        Ok(DeviceList { devices: self.store.devices().await?.into_iter().map(view).collect() })
    }

    pub(crate) async fn unpair(&self, params: UnpairParams) -> Result<Unpaired, CallError> {
        let known = self.store.devices().await?;
        let device = known.iter().find(|device| device.name == params.name).ok_or_else(|| {
            CallError::not_found(format_args!("find the device {:?}", params.name))
                .with_hint("identity.devices lists them")
        })?;
        self.identity.unpair(device).await?;
        Ok(Unpaired { id: device.id })
    }
}

/// Returns the first free of `phone`, `phone-2`, `phone-3` and so on.
fn free_name(taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|n: u32| format!("{DEFAULT_NAME}-{n}"));
    std::iter::once(DEFAULT_NAME.to_owned())
        .chain(numbered)
        .find(|name| !taken(name))
        .unwrap_or_default()
}

/// Says whether only this machine reaches an address.
fn is_loopback(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    host == "localhost"
        || ["127.", "[::1]", "localhost:", "localhost/"].iter().any(|start| host.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_name_is_numbered_where_it_is_taken() {
        let taken = ["phone", "phone-2"];
        assert_eq!(free_name(|name| taken.contains(&name)), "phone-3");
        assert_eq!(free_name(|_| false), "phone");
    }

    #[test]
    fn an_address_of_this_machine_alone_is_known() {
        for url in ["http://127.0.0.1:4445", "https://localhost:4446", "http://[::1]:1"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["https://localhost.example", "https://192.168.1.7:4446", "https://box"] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
