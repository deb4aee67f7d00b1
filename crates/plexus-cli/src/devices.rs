//! `plexus pair` and `plexus devices`: gives a phone a token that may read and decide, lists such
//! devices, and revokes them.

use anyhow::{Context as _, Result};
use plexus_client::Client;
use plexus_client::wire::{PairParams, Pairing, UnpairParams};
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use serde_json::json;

use super::args::{Devices, DevicesCommand, Global};
use super::exit;
use super::server::failed;
use plexus_render::screen::{Screen, Tone};
use plexus_render::{sanitize, screen};

/// Prints a link for a phone, as a QR code and in letters.
pub(super) async fn pair(global: &Global, name: Option<String>, as_json: bool) -> Result<u8> {
    let client = super::server::find(&global.data_dir()?).await?;
    let params = name.map_or_else(PairParams::default, PairParams::named);
    let pairing = client.identity().pair(&params).await.map_err(failed)?;
    if as_json {
        screen::line(&json!(pairing).to_string())?;
        return Ok(exit::OK);
    }
    let screen = Screen::stdout();
    for line in words(&pairing)? {
        screen::line(&line)?;
    }
    if !pairing.reachable {
        let hint = "this link works on this machine alone: set tls.listen and public_url in \
                    plexus.toml, and see docs/phone.md";
        screen::line(&screen.paint(Tone::Warn, hint))?;
    }
    Ok(exit::OK)
}

fn words(pairing: &Pairing) -> Result<Vec<String>> {
    let mut lines: Vec<String> = qr(&pairing.link)?.lines().map(str::to_owned).collect();
    lines.push(format!("{:?} gets a token that may read and decide, nothing else.", pairing.name));
    lines
        .push("Point its camera here, or open this link on it, once and within 10 minutes:".into());
    lines.push(format!("  {}", pairing.link));
    if let Some(fingerprint) = &pairing.fingerprint {
        lines.push("Check that the phone shows this certificate, SHA-256:".into());
        lines.push(format!("  {fingerprint}"));
    }
    Ok(lines)
}

/// Draws a QR code, two modules in one character. Terminals are dark more often than light, so the
/// colours are swapped: cameras read either.
fn qr(link: &str) -> Result<String> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L)
        .context("could not draw the link as a QR code: it is too long; shorten public_url")?;
    Ok(code
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Light)
        .light_color(Dense1x2::Dark)
        .quiet_zone(true)
        .build())
}

/// Lists devices, or revokes one.
pub(super) async fn devices(global: &Global, arguments: &Devices) -> Result<u8> {
    let client = Client::from_data_dir(global.data_dir()?);
    match &arguments.command {
        None => list(&client, arguments.json).await?,
        Some(DevicesCommand::Revoke { name }) => {
            let told = client.identity().unpair(&UnpairParams::new(name)).await.map_err(failed)?;
            let words = format!("revoked {}; its connections are closed", sanitize::one_line(name));
            screen::line(&if arguments.json { json!(told).to_string() } else { words })?;
        }
    }
    Ok(exit::OK)
}

async fn list(client: &Client, as_json: bool) -> Result<()> {
    let found = client.identity().devices().await.map_err(failed)?;
    if found.devices.is_empty() && !as_json {
        screen::line("no devices; `plexus pair` adds one")?;
    }
    for device in found.devices {
        let words = format!("{}  {}", device.id, sanitize::one_line(&device.name));
        screen::line(&if as_json { json!(device).to_string() } else { words })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_ours_fits_a_terminal_and_one_too_long_is_said() {
        let link = format!("https://192.168.100.100:4446/phone#code=plx_{}", "f".repeat(64));
        let drawn = qr(&link).unwrap();
        let width = drawn.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(width <= 80 && drawn.lines().count() <= 40, "{width}\n{drawn}");
        assert!(qr(&"x".repeat(4_000)).unwrap_err().to_string().contains("public_url"));
    }
}
