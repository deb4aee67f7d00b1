//! Opening: an empty database, several servers at once, and schemas that are not ours.

use plexus_store::{PostgresOptions, PostgresStore, Store, StoreError};

use crate::fixture::{database, open, session_with_chat};

pub(crate) async fn servers_that_start_together_make_one_schema() -> anyhow::Result<()> {
    let url = database().await?;
    let all = futures::future::join_all((0..4).map(|_| open(&url))).await;
    let stores = all.into_iter().collect::<Result<Vec<_>, _>>()?;
    let id = session_with_chat(stores[0].as_ref(), "s").await?;
    for store in &stores {
        assert_eq!(store.session(id).await?.name, "s");
    }
    for store in stores {
        store.close().await?;
    }
    let again = open(&url).await?;
    assert_eq!(
        again.session(id).await?.name,
        "s",
        "what was stored is there after everybody has left"
    );
    assert_eq!(again.integrity().await?, Vec::<String>::new());
    Ok(())
}

pub(crate) async fn a_schema_that_is_not_ours_is_left_as_it_is() -> anyhow::Result<()> {
    let url = database().await?;
    let name = url.rsplit('/').next().expect("a database").to_owned();
    let sql = async |text: &'static str| {
        let name = name.clone();
        tokio::task::spawn_blocking(move || testkit::postgres::shared().sql(&name, text)).await?
    };
    sql("CREATE SCHEMA plexus; CREATE TABLE plexus.sessions (theirs TEXT)").await?;
    match open(&url).await {
        Err(StoreError::Foreign { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(sql("SELECT count(*) FROM plexus.sessions").await?.trim(), "0");
    sql("DROP TABLE plexus.sessions").await?;
    open(&url).await?.close().await?;
    sql("UPDATE plexus.schema_version SET version = 99").await?;
    match open(&url).await {
        Err(StoreError::Newer { found: 99, .. }) => {}
        other => panic!("{other:?}"),
    }
    Ok(())
}

pub(crate) async fn neither_an_error_nor_a_debug_text_holds_the_password() -> anyhow::Result<()> {
    // Port 1 of this machine: nobody listens there.
    let options = PostgresOptions::new("postgres://plexus:s3cret@127.0.0.1:1/plexus");
    let refused = PostgresStore::open(&options).await.expect_err("nobody listens");
    let odd = PostgresStore::open(&PostgresOptions::new("postgres://plexus:s3cret@:no:port/"))
        .await
        .expect_err("no URL");
    for text in [format!("{options:?}"), format!("{refused:?} {refused}"), format!("{odd:?} {odd}")]
    {
        assert!(!text.contains("s3cret"), "{text}");
    }
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
    Ok(())
}
