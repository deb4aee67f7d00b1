//! The schema of each engine after all migrations: alike in both, and the same for a database of an
//! earlier release as for a new one.

use std::collections::BTreeSet;
use std::path::Path;

use plexus_store::{PostgresOptions, SqliteOptions, SqliteStore, Store};
use rusqlite::Connection;

use crate::common::open_postgres;
use crate::{database, releases, with_cluster};

/// The table of the full-text index, which has nothing in common between the engines, and the
/// tables that SQLite keeps it in.
const WORDS: &str = "search_words";

/// Tables that only PostgreSQL needs: the schema version, and the open handles.
const POSTGRES_ONLY: [&str; 2] = ["schema_version", "writers"];

pub(crate) async fn sqlite_and_postgres_have_the_same_schema() -> anyhow::Result<()> {
    let url = with_cluster(|cluster| cluster.fresh_database()).await?;
    open_postgres(&PostgresOptions::new(&url)).await?.close().await?;
    let postgres = with_cluster(move |cluster| of_postgres(cluster, database(&url))).await?;
    let dir = tempfile::tempdir()?;
    SqliteStore::open(&SqliteOptions::new(dir.path()))?.close().await?;
    let sqlite = of_sqlite(&dir.path().join(plexus_store::sqlite::DATABASE_FILE))?;
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| -> Vec<String> {
        a.difference(b).cloned().collect()
    };
    assert!(sqlite.len() > 200, "{sqlite:#?}");
    assert_eq!(
        (only(&sqlite, &postgres), only(&postgres, &sqlite)),
        (Vec::new(), Vec::new()),
        "only in SQLite, and only in PostgreSQL"
    );
    Ok(())
}

pub(crate) async fn sqlite_files_of_earlier_releases_get_the_schema_of_a_new_one()
-> anyhow::Result<()> {
    let new = tempfile::tempdir()?;
    SqliteStore::open(&SqliteOptions::new(new.path()))?.close().await?;
    let new = of_sqlite(&new.path().join(plexus_store::sqlite::DATABASE_FILE))?;
    for release in releases()? {
        let dir = tempfile::tempdir()?;
        for name in ["plexus.db", "plexus.db-wal"] {
            std::fs::copy(release.join(name), dir.path().join(name))?;
        }
        let store = SqliteStore::open(&SqliteOptions::new(dir.path()))?;
        assert_eq!(store.integrity().await?, Vec::<String>::new());
        store.close().await?;
        assert_eq!(of_sqlite(&dir.path().join(plexus_store::sqlite::DATABASE_FILE))?, new);
    }
    Ok(())
}

pub(crate) async fn postgres_databases_of_earlier_releases_get_the_schema_of_a_new_one()
-> anyhow::Result<()> {
    let new = with_cluster(|cluster| cluster.fresh_database()).await?;
    open_postgres(&PostgresOptions::new(&new)).await?.close().await?;
    for release in releases()? {
        let dump = std::fs::read_to_string(release.join("postgres.sql"))?;
        let old = with_cluster(move |cluster| {
            let url = cluster.fresh_database()?;
            cluster.sql(database(&url), &dump)?;
            Ok(url)
        });
        let old = old.await?;
        open_postgres(&PostgresOptions::new(&old)).await?.close().await?;
        let new = new.clone();
        let both = with_cluster(move |cluster| {
            let exact = |url: &str| cluster.sql(database(url), EXACT);
            Ok((exact(&old)?, exact(&new)?))
        });
        let (old, new) = both.await?;
        assert!(new.lines().count() > 200, "{new}");
        assert_eq!(old, new);
    }
    Ok(())
}

/// Queries a schema in PostgreSQL's own terms.
const EXACT: &str = "
    SELECT concat_ws(' ', 'column', table_name, ordinal_position, column_name, data_type,
    is_nullable,
                     column_default, is_identity, collation_name)
    FROM information_schema.columns WHERE table_schema = 'plexus'
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'plexus'
    UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE connamespace = 'plexus'::regnamespace
    UNION ALL SELECT concat_ws(' ', 'options', relname, reloptions::text)
    FROM pg_class WHERE relnamespace = 'plexus'::regnamespace AND relkind = 'r'
    ORDER BY 1";

// Both engines' schemas as lines of the same form, one for each fact.

/// Returns columns with the class of their type, keys, references and indexes.
fn of_postgres(
    cluster: &testkit::postgres::Postgres,
    database: &str,
) -> anyhow::Result<BTreeSet<String>> {
    let facts = cluster.sql(
        database,
        "SELECT concat_ws(' ', 'column', table_name, ordinal_position, column_name,
             CASE data_type WHEN 'bigint' THEN 'INTEGER' WHEN 'boolean' THEN 'INTEGER'
                            WHEN 'uuid' THEN 'BLOB' WHEN 'bytea' THEN 'BLOB'
                            WHEN 'text' THEN 'TEXT' ELSE data_type END,
             CASE is_nullable WHEN 'YES' THEN 'maybe' ELSE 'always' END,
             CASE column_default WHEN 'false' THEN '0' ELSE column_default END)
         FROM information_schema.columns WHERE table_schema = 'plexus'
         UNION ALL
         SELECT concat_ws(' ', CASE contype WHEN 'p' THEN 'primary' ELSE 'unique' END,
             conrelid::regclass,
             (SELECT string_agg(attname, ',' ORDER BY k.n)
             FROM unnest(conkey) WITH ORDINALITY k (num, n)
              JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = k.num))
         FROM pg_constraint
         WHERE connamespace = 'plexus'::regnamespace AND contype IN ('p', 'u')
         UNION ALL
         SELECT concat_ws(' ', 'reference', conrelid::regclass, a.attname, confrelid::regclass)
         FROM pg_constraint JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = conkey[1]
         WHERE connamespace = 'plexus'::regnamespace AND contype = 'f'
         UNION ALL
         SELECT indexdef FROM pg_indexes i WHERE schemaname = 'plexus'
         AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = i.indexname)",
    )?;
    let facts = facts.lines().map(|line| match line.strip_prefix("CREATE ") {
        Some(index) => index_words(index),
        None => line.replace("plexus.", ""),
    });
    let only = |fact: &String| {
        let mut words = fact.split(' ').skip(1);
        words.next().is_some_and(|table| POSTGRES_ONLY.contains(&table)) || fact.contains(WORDS)
    };
    Ok(facts.filter(|fact| !only(fact)).collect())
}

fn of_sqlite(path: &Path) -> anyhow::Result<BTreeSet<String>> {
    let db = Connection::open(path)?;
    let facts = db
        .prepare(
            "SELECT concat_ws(' ', 'column', m.name, c.cid + 1, c.name, c.type,
                 CASE WHEN c.\"notnull\" OR c.pk > 0 THEN 'always' ELSE 'maybe' END, c.dflt_value)
             FROM sqlite_master m, pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite^_%' ESCAPE '^'
             UNION ALL
             SELECT concat_ws(' ', 'primary', t.name, t.columns) FROM (
                 SELECT m.name, group_concat(c.name ORDER BY c.pk) AS columns
                 FROM sqlite_master m, pragma_table_info(m.name) c
                 WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite^_%' ESCAPE '^' AND c.pk > 0
                 GROUP BY m.name) t
             UNION ALL
             SELECT concat_ws(' ', 'unique', m.name, (SELECT group_concat(name)
             FROM pragma_index_info(i.name)))
             FROM sqlite_master m, pragma_index_list(m.name) i
             WHERE m.type = 'table' AND i.origin = 'u'
             UNION ALL
             SELECT concat_ws(' ', 'reference', m.name, f.\"from\", f.\"table\")
             FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'
             UNION ALL SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
        )?
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    let facts = facts.into_iter().map(|line| match line.strip_prefix("CREATE ") {
        Some(index) => index_words(index),
        None => line,
    });
    Ok(facts.filter(|fact| !fact.contains(WORDS)).collect())
}

/// Returns an index's definition without the parts that only one engine writes: its schema, its
/// method, casts, brackets, and the spelling of `false`.
fn index_words(definition: &str) -> String {
    let mut text = definition.to_lowercase().replace("plexus.", "").replace("using btree", "");
    for cast in ["::bigint", "::integer"] {
        text = text.replace(cast, "");
    }
    let text = text.replace("not retired", "retired = 0");
    let words: String = text.chars().filter(|it| !" ()'\"\n".contains(*it)).collect();
    format!("index {words}")
}
