"""The tables of the state store.

Instants are whole microseconds since 1970 (UTC) in a BIGINT: exact, and comparable in every
database. The Iceberg catalog's own two tables are created with the exact statements of Iceberg's
Java JDBC catalog, schema version V1. New stores are created from this module; migrations upgrade
older stores. Conditions of partial indexes are written here for SQLite, and `migrate` copies them
for PostgreSQL, because importing PostgreSQL's dialect here takes 60 ms of every command.
"""

from __future__ import annotations

import sqlalchemy as sa

from vde_dagster.state.db.rows import Instant, Texts

SCHEMA_VERSION = "0024"
FIRST_VERSION = "0015"
"""The oldest schema that can be upgraded; earlier schemas were never released."""
VERSION_TABLE = "vde_alembic_version"

metadata = sa.MetaData()

snapshots = sa.Table(
    "vde_snapshots",
    metadata,
    sa.Column("snapshot_id", sa.String(64), primary_key=True),
    sa.Column("model_namespace", sa.String(255), nullable=False),
    sa.Column("model_name", sa.String(255), nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
)

view_types = sa.Table(
    "vde_view_types",
    metadata,
    sa.Column("snapshot_id", sa.String(64), primary_key=True),
    sa.Column("columns", sa.Text, nullable=False),
    # The login that wrote the row, if it may not publish; see `state.db.guards.rights`.
    sa.Column("db_user", sa.String(255)),
)

tables = sa.Table(
    "vde_tables",
    metadata,
    sa.Column("table_id", sa.String(64), primary_key=True),
    sa.Column("namespace", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("fill_version", sa.String(64), nullable=False),
    sa.Column("columns_version", sa.String(64), nullable=False),
    sa.Column("columns", sa.Text, nullable=False),
    sa.Column("snapshot_id", sa.String(64), nullable=False),
    sa.Column("created", sa.Boolean, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("registered_at", Instant, nullable=False),
    sa.Column("tombstoned_at", Instant),
    sa.Column("location", sa.String(1000)),
    sa.Index("vde_tables_place", "namespace", "name", unique=True),
    sa.Index(
        "vde_tables_content",
        "fill_version",
        "columns_version",
        unique=True,
        sqlite_where=sa.text("status = 'live'"),
    ),
)

intervals = sa.Table(
    "vde_intervals",
    metadata,
    sa.Column("table_id", sa.String(64), primary_key=True),
    sa.Column("start_at", Instant, primary_key=True),
    sa.Column("end_at", Instant, nullable=False),
)

fills = sa.Table(
    "vde_fills",
    metadata,
    sa.Column("table_id", sa.String(64), primary_key=True),
    sa.Column("start_at", Instant, primary_key=True),
    sa.Column("end_at", Instant, primary_key=True),
    sa.Column("plan_id", sa.String(64), primary_key=True),
    sa.Column("iceberg_snapshot_id", sa.BigInteger),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("byte_count", sa.BigInteger),
    sa.Column("seconds", sa.Float),
    sa.Column("recorded_at", Instant, nullable=False),
    sa.Column("inputs", sa.Text),
    sa.Column("output", sa.Text),
    sa.Column("skipped", sa.Text),
    sa.Column("lacks", sa.Text),
    sa.Column("undone", sa.Boolean),
    sa.Column("task_seconds", sa.Float),
    sa.Column("bytes_read", sa.BigInteger),
    sa.Column("refresh", sa.Text),
    sa.Index("vde_fills_latest", "table_id", "recorded_at"),
)

environments = sa.Table(
    "vde_environments",
    metadata,
    sa.Column("environment", sa.String(64), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("live", sa.Boolean, nullable=False),
    sa.Column("expires_at", Instant),
)

environment_versions = sa.Table(
    "vde_environment_versions",
    metadata,
    sa.Column("environment", sa.String(64), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("publication_id", sa.String(64), nullable=False, unique=True),
    sa.Column("plan_id", sa.String(64)),
    sa.Column("published_at", Instant, nullable=False),
    sa.Column("published_by", sa.String(255), nullable=False),
    sa.Column("expires_at", Instant),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("added", sa.Integer, nullable=False),
    sa.Column("changed", sa.Integer, nullable=False),
    sa.Column("removed", sa.Integer, nullable=False),
    sa.Column("dropped", sa.Boolean, nullable=False),
    sa.Column("suffix", sa.String(16)),
    sa.Column("mode", sa.String(16)),
    sa.Column("frozen", sa.String(255)),
    sa.Column("kept", Texts),
)

entries = sa.Table(
    "vde_entries",
    metadata,
    sa.Column("environment", sa.String(64), primary_key=True),
    sa.Column("model_namespace", sa.String(255), primary_key=True),
    sa.Column("model_name", sa.String(255), primary_key=True),
    sa.Column("valid_from", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("valid_to", sa.Integer),
    sa.Column("snapshot_id", sa.String(64), nullable=False),
    sa.Column("table_id", sa.String(64)),
    # Set where the environment shows an earlier snapshot of the table; NULL for an empty table.
    sa.Column("held_schema_id", sa.Integer),
    sa.Column("held_snapshot_id", sa.BigInteger),
    sa.Index("vde_entries_valid", "environment", "valid_to"),
    # Which environments show a table is queried at every fill; the index avoids reading them all.
    sa.Index(
        "vde_entries_shown", "table_id", "environment", sqlite_where=sa.text("valid_to IS NULL")
    ),
)

# Facts about the metadata file that a table's pointer named; see `state.environments.pins`.
heads = sa.Table(
    "vde_heads",
    metadata,
    sa.Column("table_id", sa.String(64), primary_key=True),
    sa.Column("metadata_location", sa.String(1000), nullable=False),
    sa.Column("iceberg_snapshot_id", sa.BigInteger),
    sa.Column("schema_id", sa.Integer, nullable=False),
    sa.Column("row_count", sa.BigInteger),
)

pins = sa.Table(
    "vde_pins",
    metadata,
    sa.Column("environment", sa.String(64), primary_key=True),
    sa.Column("table_id", sa.String(64), primary_key=True),
    sa.Column("valid_from", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("valid_to", sa.Integer),
    sa.Column("iceberg_snapshot_id", sa.BigInteger),
    sa.Column("schema_id", sa.Integer, nullable=False),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("rows_added", sa.BigInteger),
    sa.Column("rows_removed", sa.BigInteger),
    sa.Column("filled", sa.Text),
    sa.Index(
        "vde_pins_open",
        "environment",
        "table_id",
        unique=True,
        sqlite_where=sa.text("valid_to IS NULL"),
    ),
)

plans = sa.Table(
    "vde_plans",
    metadata,
    sa.Column("plan_id", sa.String(64), primary_key=True),
    sa.Column("environment", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("base_version", sa.Integer, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("started_at", Instant),
    sa.Column("finished_at", Instant),
    sa.Column("message", sa.Text),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Index("vde_plans_recent", "environment", "created_at"),
)

# Statements that environments have not run yet; see `state.environments.statements`.
journal = sa.Table(
    "vde_journal",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("plan_id", sa.String(64), nullable=False, index=True),
    sa.Column("step", sa.String(255), nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("at", Instant, nullable=False),
)

pending = sa.Table(
    "vde_pending_intervals",
    metadata,
    sa.Column("plan_id", sa.String(64), primary_key=True),
    sa.Column("table_id", sa.String(64), primary_key=True),
    sa.Column("start_at", Instant, primary_key=True),
    sa.Column("end_at", Instant, primary_key=True),
    sa.Column("branch", sa.String(255), nullable=False),
    sa.Column("iceberg_snapshot_id", sa.BigInteger),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("byte_count", sa.BigInteger),
    sa.Column("seconds", sa.Float),
    sa.Column("recorded_at", Instant, nullable=False),
    sa.Column("inputs", sa.Text),
    sa.Column("output", sa.Text),
    sa.Column("skipped", sa.Text),
    sa.Column("lacks", sa.Text),
    sa.Column("task_seconds", sa.Float),
    sa.Column("bytes_read", sa.BigInteger),
    sa.Column("refresh", sa.Text),
)

# Ranges that work begun after `since` has to compute again; see `state.fills.outdated`.
outdated = sa.Table(
    "vde_outdated",
    metadata,
    sa.Column("table_id", sa.String(64), primary_key=True),
    sa.Column("start_at", Instant, primary_key=True),
    sa.Column("end_at", Instant, primary_key=True),
    sa.Column("since", Instant, nullable=False),
)

# Partly filled interval units, to be filled again; see `state.tables.noted_ranges`.
parts = sa.Table(
    "vde_parts",
    metadata,
    sa.Column("table_id", sa.String(64), primary_key=True),
    sa.Column("start_at", Instant, primary_key=True),
    sa.Column("end_at", Instant, primary_key=True),
    sa.Column("unit", sa.String(16), primary_key=True),
    sa.Column("since", Instant, nullable=False),
)

audit_results = sa.Table(
    "vde_audit_results",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("plan_id", sa.String(64), nullable=False, index=True),
    sa.Column("table_id", sa.String(64), index=True),
    sa.Column("model_namespace", sa.String(255), nullable=False),
    sa.Column("model_name", sa.String(255), nullable=False),
    sa.Column("audit", sa.Text, nullable=False),
    sa.Column("blocking", sa.Boolean, nullable=False),
    sa.Column("start_at", Instant, nullable=False),
    sa.Column("end_at", Instant, nullable=False),
    sa.Column("failed_rows", sa.BigInteger, nullable=False),
    sa.Column("sample", sa.Text, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("recorded_at", Instant, nullable=False),
    sa.Column("environment", sa.String(64)),
    sa.Column("version", sa.Integer),
)

# `seq` is assigned when a row is written, `number` when it is first read: see `state.db.outbox`.
outbox = sa.Table(
    "vde_news",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("number", sa.BigInteger),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("origin", sa.String(255), nullable=False),
    sa.Column("at", Instant, nullable=False),
    sa.Index("vde_news_number", "number", unique=True),
    sa.Index("vde_news_origin", "origin", "number"),
)

change_cursors = sa.Table(
    "vde_change_cursors",
    metadata,
    sa.Column("environment", sa.String(64), primary_key=True),
    sa.Column("model_namespace", sa.String(255), primary_key=True),
    sa.Column("model_name", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("moved_at", Instant, nullable=False),
    sa.Column("moved_by", sa.String(255), nullable=False),
)

leases = sa.Table(
    "vde_leases",
    metadata,
    sa.Column("resource", sa.String(255), primary_key=True),
    sa.Column("owner", sa.String(255)),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("acquired_at", Instant, nullable=False),
    sa.Column("heartbeat_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    # The login that holds the lease, where roles exist; see `state.db.guards.rights`.
    sa.Column("db_user", sa.String(255)),
    # The owner's process, so that others on its machine can detect that it has ended.
    sa.Column("process", sa.String(255)),
)

publications = sa.Table(
    "vde_publications",
    metadata,
    sa.Column("publication_id", sa.String(64), primary_key=True),
    sa.Column("environment", sa.String(64), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("version", sa.Integer),
    sa.Column("plan_id", sa.String(64)),
    sa.Column("published_by", sa.String(255), nullable=False),
    sa.Column("files", sa.LargeBinary, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("decided_at", Instant),
    sa.Column("cleaned_at", Instant),
    sa.Index("vde_publications_cleaned", "cleaned_at"),
)

views = sa.Table(
    "vde_views",
    metadata,
    sa.Column("catalog_name", sa.String(255), primary_key=True),
    sa.Column("namespace", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("environment", sa.String(64), nullable=False),
    sa.Column("definition_hash", sa.String(64), nullable=False),
    sa.Column("metadata_location", sa.String(1000), nullable=False),
    sa.Column("publication_id", sa.String(64), nullable=False),
    sa.Index("vde_views_environment", "environment"),
)

namespaces = sa.Table(
    "vde_namespaces",
    metadata,
    sa.Column("catalog_name", sa.String(255), primary_key=True),
    sa.Column("namespace", sa.String(255), primary_key=True),
    sa.Column("environment", sa.String(64), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
)

tokens = sa.Table(
    "vde_tokens",
    metadata,
    sa.Column("token_id", sa.String(16), primary_key=True),
    sa.Column("environment", sa.String(64), nullable=False),
    sa.Column("secret_hash", sa.String(64), nullable=False),
    sa.Column("row_filter", sa.String(2000)),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("created_by", sa.String(255), nullable=False),
    sa.Column("expires_at", Instant),
    sa.Column("revoked_at", Instant),
)

mirrored_views = sa.Table(
    "vde_mirrored_views",
    metadata,
    sa.Column("catalog_name", sa.String(255), primary_key=True),
    sa.Column("namespace", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("environment", sa.String(64), nullable=False),
    sa.Column("wanted_hash", sa.String(64)),
    sa.Column("definition", sa.Text),
    sa.Column("behind_since", Instant),
    sa.Column("writer", sa.String(64)),
    sa.Column("watched_until", Instant),
    sa.Column("failure", sa.String(1000)),
)

# One row, written with the first publication; see `state.store`.
project = sa.Table(
    "vde_project",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("named", sa.Boolean, nullable=False),
    sa.Column("since", Instant, nullable=False),
    sa.Column("warehouse", sa.String(1000)),
)

# Acts, each with the hash of the one before; see `state.db.log`.
log = sa.Table(
    "vde_log",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("db_user", sa.String(255)),
    sa.Column("who", sa.String(255), nullable=False),
    sa.Column("act", sa.String(16), nullable=False),
    sa.Column("environment", sa.String(64)),
    sa.Column("version", sa.Integer),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Index("vde_log_previous", "previous", unique=True),
    sa.Index("vde_log_environment", "environment", "number"),
)

iceberg_metadata = sa.MetaData()

iceberg_tables = sa.Table(
    "iceberg_tables",
    iceberg_metadata,
    sa.Column("catalog_name", sa.String(255), primary_key=True),
    sa.Column("table_namespace", sa.String(255), primary_key=True),
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("metadata_location", sa.String(1000)),
    sa.Column("previous_metadata_location", sa.String(1000)),
    sa.Column("iceberg_type", sa.String(5)),
)

iceberg_namespace_properties = sa.Table(
    "iceberg_namespace_properties",
    iceberg_metadata,
    sa.Column("catalog_name", sa.String(255), primary_key=True),
    sa.Column("namespace", sa.String(255), primary_key=True),
    sa.Column("property_key", sa.String(255), primary_key=True),
    sa.Column("property_value", sa.String(1000)),
)

ICEBERG_DDL = (
    "CREATE TABLE IF NOT EXISTS iceberg_tables(catalog_name VARCHAR(255) NOT NULL,"
    "table_namespace VARCHAR(255) NOT NULL,table_name VARCHAR(255) NOT NULL,"
    "metadata_location VARCHAR(1000),previous_metadata_location VARCHAR(1000), "
    "iceberg_type VARCHAR(5),PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL,"
    "namespace VARCHAR(255) NOT NULL,property_key VARCHAR(255),property_value VARCHAR(1000),"
    "PRIMARY KEY (catalog_name, namespace, property_key))",
)
