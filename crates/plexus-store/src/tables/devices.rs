//! Devices of the operator in SQL. A revoked one keeps its row, so that the decisions it made keep
//! its name.

use plexus_core::DeviceId;

use super::sql::{Row, Sql, params};
use super::tx::Tx;
use crate::contract::limits::MAX_DEVICES;
use crate::contract::{AddDevice, Device, Outcome, RevokeDevice, StoreError, Thing};

fn read(row: &Row<'_>) -> Result<Device, StoreError> {
    Ok(Device {
        id: row.get(0)?,
        name: row.get(1)?,
        paired_at: row.get(2)?,
        revoked_at: row.maybe(3)?,
    })
}

pub(crate) async fn get(conn: &impl Sql, id: DeviceId) -> Result<Device, StoreError> {
    conn.one(
        "SELECT uuid, name, paired_at, revoked_at FROM devices WHERE uuid = ?1",
        params![id],
        read,
    )
    .await?
    .ok_or_else(|| StoreError::not_found(Thing::Device, id))
}

/// Lists the devices that are not revoked, oldest first.
pub(crate) async fn list(conn: &impl Sql) -> Result<Vec<Device>, StoreError> {
    conn.all(
        "SELECT uuid, name, paired_at, revoked_at FROM devices WHERE revoked_at IS NULL
         ORDER BY id LIMIT ?1",
        params![MAX_DEVICES],
        read,
    )
    .await
}

pub(super) async fn add(tx: &mut Tx<'_, impl Sql>, new: &AddDevice) -> Result<Outcome, StoreError> {
    let known = list(tx.conn).await?;
    if let Some(same) = known.iter().find(|device| device.name == new.name) {
        return Err(StoreError::conflict(
            format_args!("pair {:?}: another device has this name", new.name),
            same,
        ));
    }
    if known.len() >= MAX_DEVICES {
        return Err(StoreError::conflict(
            format_args!(
                "pair {:?}: {MAX_DEVICES} devices are paired, the most there may be; revoke one",
                new.name
            ),
            &known.len(),
        ));
    }
    tx.conn
        .run(
            "INSERT INTO devices (uuid, name, paired_at) VALUES (?1, ?2, ?3)",
            params![new.id, new.name, new.at],
        )
        .await?;
    Ok(Outcome::Done)
}

pub(super) async fn revoke(
    tx: &mut Tx<'_, impl Sql>,
    it: RevokeDevice,
) -> Result<Outcome, StoreError> {
    get(tx.conn, it.id).await?;
    tx.conn
        .run(
            "UPDATE devices SET revoked_at = coalesce(revoked_at, ?2) WHERE uuid = ?1",
            params![it.id, it.at],
        )
        .await?;
    let count = tx.conn.run("DELETE FROM tokens WHERE device = ?1", params![it.id]).await?;
    Ok(Outcome::Count(count))
}
