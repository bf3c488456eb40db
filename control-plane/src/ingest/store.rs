//! The statements of the writer: one per table, whatever the number of rows.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

use super::merge::{Merged, SubjectKey, SubjectSum, TrafficKey, TrafficSum};
use super::row::Denial;

const ADD_TRAFFIC_10S: &str = include_str!("sql/add_traffic_10s.sql");
const ADD_TRAFFIC_1M: &str = include_str!("sql/add_traffic_1m.sql");
const ADD_TRAFFIC_1H: &str = include_str!("sql/add_traffic_1h.sql");
const ADD_SUBJECTS_1M: &str = include_str!("sql/add_subjects_1m.sql");
const ADD_SUBJECTS_1H: &str = include_str!("sql/add_subjects_1h.sql");
const ADD_DENIALS: &str = include_str!("sql/add_denials.sql");

/// Adds all rows, within the caller's transaction.
pub(crate) async fn add(connection: &mut PgConnection, merged: &Merged) -> sqlx::Result<()> {
    add_traffic_10s(connection, &merged.traffic_10s).await?;
    add_traffic(connection, ADD_TRAFFIC_1M, &merged.traffic_1m).await?;
    add_traffic(connection, ADD_TRAFFIC_1H, &merged.traffic_1h).await?;
    add_subjects(connection, ADD_SUBJECTS_1M, &merged.subjects_1m).await?;
    add_subjects(connection, ADD_SUBJECTS_1H, &merged.subjects_1h).await?;
    add_denials(connection, &merged.denials).await
}

/// One column of the rows.
fn column<'a, K, V, T>(rows: &'a BTreeMap<K, V>, get: impl Fn(&'a K, &'a V) -> T) -> Vec<T> {
    rows.iter().map(|(key, value)| get(key, value)).collect()
}

async fn add_traffic_10s(connection: &mut PgConnection, rows: &BTreeMap<TrafficKey, TrafficSum>) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(ADD_TRAFFIC_10S)
        .bind(column(rows, |k, _| k.domain.as_str()))
        .bind(column(rows, |k, _| k.bucket))
        .bind(column(rows, |k, _| k.rule.as_str()))
        .bind(column(rows, |k, _| k.tier.as_str()))
        .bind(column(rows, |k, _| k.outcome))
        .bind(column(rows, |k, _| k.shard.as_str()))
        .bind(column(rows, |k, _| k.cause.as_str()))
        .bind(column(rows, |_, v| v.requests))
        .bind(column(rows, |_, v| v.units))
        .execute(connection)
        .await?;
    Ok(())
}

async fn add_traffic(connection: &mut PgConnection, sql: &'static str, rows: &BTreeMap<TrafficKey, TrafficSum>) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(sql)
        .bind(column(rows, |k, _| k.domain.as_str()))
        .bind(column(rows, |k, _| k.bucket))
        .bind(column(rows, |k, _| k.rule.as_str()))
        .bind(column(rows, |k, _| k.tier.as_str()))
        .bind(column(rows, |k, _| k.outcome))
        .bind(column(rows, |_, v| v.requests))
        .bind(column(rows, |_, v| v.units))
        .execute(connection)
        .await?;
    Ok(())
}

async fn add_subjects(connection: &mut PgConnection, sql: &'static str, rows: &BTreeMap<SubjectKey, SubjectSum>) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(sql)
        .bind(column(rows, |k, _| k.domain.as_str()))
        .bind(column(rows, |k, _| k.bucket))
        .bind(column(rows, |k, _| k.subject.as_str()))
        .bind(column(rows, |k, _| k.rule.as_str()))
        .bind(column(rows, |k, _| k.tier.as_str()))
        .bind(column(rows, |_, v| v.denied))
        .bind(column(rows, |_, v| v.allowed))
        .bind(column(rows, |_, v| v.error))
        .bind(column(rows, |_, v| v.first_second))
        .bind(column(rows, |_, v| v.last_second))
        .execute(connection)
        .await?;
    Ok(())
}

async fn add_denials(connection: &mut PgConnection, rows: &[Denial]) -> sqlx::Result<()> {
    fn texts(rows: &[Denial], get: impl Fn(&Denial) -> &str) -> Vec<&str> {
        rows.iter().map(get).collect()
    }
    let numbers = |get: fn(&Denial) -> i64| -> Vec<i64> { rows.iter().map(get).collect() };
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(ADD_DENIALS)
        .bind(rows.iter().map(|_| Uuid::now_v7()).collect::<Vec<_>>())
        .bind(numbers(|d| d.time_ms))
        .bind(texts(rows, |d| &d.agent))
        .bind(texts(rows, |d| &d.domain))
        .bind(texts(rows, |d| &d.rule))
        .bind(texts(rows, |d| &d.tier))
        .bind(texts(rows, |d| &d.subject))
        .bind(rows.iter().map(|d| d.outcome).collect::<Vec<_>>())
        .bind(texts(rows, |d| &d.reason))
        .bind(texts(rows, |d| &d.method))
        .bind(texts(rows, |d| &d.host))
        .bind(texts(rows, |d| &d.path))
        .bind(texts(rows, |d| &d.client_ip))
        .bind(numbers(|d| d.limit))
        .bind(numbers(|d| d.window_ms))
        .bind(numbers(|d| d.retry_after_ms))
        .bind(numbers(|d| d.cost))
        .bind(texts(rows, |d| &d.shard))
        .bind(texts(rows, |d| &d.key))
        .bind(rows.iter().map(|d| d.weight).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}
