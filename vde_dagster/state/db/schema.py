"""The tables of the state store.

Instants are whole microseconds since 1970 (UTC) in a BIGINT: exact, and comparable in every
database. The Iceberg catalog's own two tables are created with the exact statements of Iceberg's
Java JDBC catalog, schema version V1. New stores are created from this module; migrations upgrade
older stores. `migrate` copies the conditions of indexes to PostgreSQL, because importing its
dialect here takes 60 ms of every command.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

from vde_dagster.state.db.rows import Instant, Texts

SCHEMA_VERSION = "0024"
FIRST_VERSION = "0015"
"""The oldest schema that can be upgraded; earlier schemas were never released."""
VERSION_TABLE = "vde_alembic_version"

metadata = MetaData()

snapshots = Table(
    "vde_snapshots",
    metadata,
    Column("snapshot_id", String(64), primary_key=True),
    Column("model_namespace", String(255), nullable=False),
    Column("model_name", String(255), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
)

view_types = Table(
    "vde_view_types",
    metadata,
    Column("snapshot_id", String(64), primary_key=True),
    Column("columns", Text, nullable=False),
    # The login that wrote the row, if it may not publish; see `state.db.guards.rights`.
    Column("db_user", String(255)),
)

tables = Table(
    "vde_tables",
    metadata,
    Column("table_id", String(64), primary_key=True),
    Column("namespace", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("fill_version", String(64), nullable=False),
    Column("columns_version", String(64), nullable=False),
    Column("columns", Text, nullable=False),
    Column("snapshot_id", String(64), nullable=False),
    Column("created", Boolean, nullable=False),
    Column("status", String(16), nullable=False),
    Column("registered_at", Instant, nullable=False),
    Column("tombstoned_at", Instant),
    Column("location", String(1000)),
    Index("vde_tables_place", "namespace", "name", unique=True),
    Index(
        "vde_tables_content",
        "fill_version",
        "columns_version",
        unique=True,
        sqlite_where=text("status = 'live'"),
    ),
)

intervals = Table(
    "vde_intervals",
    metadata,
    Column("table_id", String(64), primary_key=True),
    Column("start_at", Instant, primary_key=True),
    Column("end_at", Instant, nullable=False),
)

fills = Table(
    "vde_fills",
    metadata,
    Column("table_id", String(64), primary_key=True),
    Column("start_at", Instant, primary_key=True),
    Column("end_at", Instant, primary_key=True),
    Column("plan_id", String(64), primary_key=True),
    Column("iceberg_snapshot_id", BigInteger),
    Column("row_count", BigInteger),
    Column("byte_count", BigInteger),
    Column("seconds", Float),
    Column("recorded_at", Instant, nullable=False),
    Column("inputs", Text),
    Column("output", Text),
    Column("skipped", Text),
    Column("lacks", Text),
    Column("undone", Boolean),
    Column("task_seconds", Float),
    Column("bytes_read", BigInteger),
    Column("refresh", Text),
    Index("vde_fills_latest", "table_id", "recorded_at"),
)

environments = Table(
    "vde_environments",
    metadata,
    Column("environment", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("live", Boolean, nullable=False),
    Column("expires_at", Instant),
)

environment_versions = Table(
    "vde_environment_versions",
    metadata,
    Column("environment", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("publication_id", String(64), nullable=False, unique=True),
    Column("plan_id", String(64)),
    Column("published_at", Instant, nullable=False),
    Column("published_by", String(255), nullable=False),
    Column("expires_at", Instant),
    Column("note", Text, nullable=False),
    Column("added", Integer, nullable=False),
    Column("changed", Integer, nullable=False),
    Column("removed", Integer, nullable=False),
    Column("dropped", Boolean, nullable=False),
    Column("suffix", String(16)),
    Column("mode", String(16)),
    Column("frozen", String(255)),
    Column("kept", Texts),
)

entries = Table(
    "vde_entries",
    metadata,
    Column("environment", String(64), primary_key=True),
    Column("model_namespace", String(255), primary_key=True),
    Column("model_name", String(255), primary_key=True),
    Column("valid_from", Integer, primary_key=True, autoincrement=False),
    Column("valid_to", Integer),
    Column("snapshot_id", String(64), nullable=False),
    Column("table_id", String(64)),
    # Set where the environment shows an earlier snapshot of the table; NULL for an empty table.
    Column("held_schema_id", Integer),
    Column("held_snapshot_id", BigInteger),
    Index("vde_entries_valid", "environment", "valid_to"),
    # Which environments show a table is queried at every fill; the index avoids reading them all.
    Index(
        "vde_entries_shown",
        "table_id",
        "environment",
        sqlite_where=text("valid_to IS NULL"),
    ),
)

# Facts about the metadata file that a table's pointer named; see `state.environments.pins`.
heads = Table(
    "vde_heads",
    metadata,
    Column("table_id", String(64), primary_key=True),
    Column("metadata_location", String(1000), nullable=False),
    Column("iceberg_snapshot_id", BigInteger),
    Column("schema_id", Integer, nullable=False),
    Column("row_count", BigInteger),
)

pins = Table(
    "vde_pins",
    metadata,
    Column("environment", String(64), primary_key=True),
    Column("table_id", String(64), primary_key=True),
    Column("valid_from", Integer, primary_key=True, autoincrement=False),
    Column("valid_to", Integer),
    Column("iceberg_snapshot_id", BigInteger),
    Column("schema_id", Integer, nullable=False),
    Column("row_count", BigInteger),
    Column("rows_added", BigInteger),
    Column("rows_removed", BigInteger),
    Column("filled", Text),
    Index(
        "vde_pins_open",
        "environment",
        "table_id",
        unique=True,
        sqlite_where=text("valid_to IS NULL"),
    ),
)

plans = Table(
    "vde_plans",
    metadata,
    Column("plan_id", String(64), primary_key=True),
    Column("environment", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("base_version", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("message", Text),
    Column("payload", LargeBinary, nullable=False),
    Index("vde_plans_recent", "environment", "created_at"),
)

# Statements that environments have not run yet; see `state.environments.statements`.
journal = Table(
    "vde_journal",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("plan_id", String(64), nullable=False, index=True),
    Column("step", String(255), nullable=False),
    Column("detail", Text, nullable=False),
    Column("at", Instant, nullable=False),
)

pending = Table(
    "vde_pending_intervals",
    metadata,
    Column("plan_id", String(64), primary_key=True),
    Column("table_id", String(64), primary_key=True),
    Column("start_at", Instant, primary_key=True),
    Column("end_at", Instant, primary_key=True),
    Column("branch", String(255), nullable=False),
    Column("iceberg_snapshot_id", BigInteger),
    Column("row_count", BigInteger),
    Column("byte_count", BigInteger),
    Column("seconds", Float),
    Column("recorded_at", Instant, nullable=False),
    Column("inputs", Text),
    Column("output", Text),
    Column("skipped", Text),
    Column("lacks", Text),
    Column("task_seconds", Float),
    Column("bytes_read", BigInteger),
    Column("refresh", Text),
)

# Ranges that work begun after `since` has to compute again; see `state.fills.outdated`.
outdated = Table(
    "vde_outdated",
    metadata,
    Column("table_id", String(64), primary_key=True),
    Column("start_at", Instant, primary_key=True),
    Column("end_at", Instant, primary_key=True),
    Column("since", Instant, nullable=False),
)

# Partly filled interval units, to be filled again; see `state.tables.noted_ranges`.
parts = Table(
    "vde_parts",
    metadata,
    Column("table_id", String(64), primary_key=True),
    Column("start_at", Instant, primary_key=True),
    Column("end_at", Instant, primary_key=True),
    Column("unit", String(16), primary_key=True),
    Column("since", Instant, nullable=False),
)

audit_results = Table(
    "vde_audit_results",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("plan_id", String(64), nullable=False, index=True),
    Column("table_id", String(64), index=True),
    Column("model_namespace", String(255), nullable=False),
    Column("model_name", String(255), nullable=False),
    Column("audit", Text, nullable=False),
    Column("blocking", Boolean, nullable=False),
    Column("start_at", Instant, nullable=False),
    Column("end_at", Instant, nullable=False),
    Column("failed_rows", BigInteger, nullable=False),
    Column("sample", Text, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("recorded_at", Instant, nullable=False),
    Column("environment", String(64)),
    Column("version", Integer),
)

# `seq` is assigned when a row is written, `number` when it is first read: see `state.db.outbox`.
outbox = Table(
    "vde_news",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("number", BigInteger),
    Column("kind", String(16), nullable=False),
    Column("subject", Text, nullable=False),
    Column("origin", String(255), nullable=False),
    Column("at", Instant, nullable=False),
    Index("vde_news_number", "number", unique=True),
    Index("vde_news_origin", "origin", "number"),
)

change_cursors = Table(
    "vde_change_cursors",
    metadata,
    Column("environment", String(64), primary_key=True),
    Column("model_namespace", String(255), primary_key=True),
    Column("model_name", String(255), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("moved_at", Instant, nullable=False),
    Column("moved_by", String(255), nullable=False),
)

leases = Table(
    "vde_leases",
    metadata,
    Column("resource", String(255), primary_key=True),
    Column("owner", String(255)),
    Column("token", BigInteger, nullable=False),
    Column("acquired_at", Instant, nullable=False),
    Column("heartbeat_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    # The login that holds the lease, where roles exist; see `state.db.guards.rights`.
    Column("db_user", String(255)),
    # The owner's process, so that others on its machine can detect that it has ended.
    Column("process", String(255)),
)

publications = Table(
    "vde_publications",
    metadata,
    Column("publication_id", String(64), primary_key=True),
    Column("environment", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("version", Integer),
    Column("plan_id", String(64)),
    Column("published_by", String(255), nullable=False),
    Column("files", LargeBinary, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("decided_at", Instant),
    Column("cleaned_at", Instant),
    Index("vde_publications_cleaned", "cleaned_at"),
)

views = Table(
    "vde_views",
    metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("namespace", String(255), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("environment", String(64), nullable=False),
    Column("definition_hash", String(64), nullable=False),
    Column("metadata_location", String(1000), nullable=False),
    Column("publication_id", String(64), nullable=False),
    Index("vde_views_environment", "environment"),
)

namespaces = Table(
    "vde_namespaces",
    metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("namespace", String(255), primary_key=True),
    Column("environment", String(64), nullable=False),
    Column("created_at", Instant, nullable=False),
)

tokens = Table(
    "vde_tokens",
    metadata,
    Column("token_id", String(16), primary_key=True),
    Column("environment", String(64), nullable=False),
    Column("secret_hash", String(64), nullable=False),
    Column("row_filter", String(2000)),
    Column("created_at", Instant, nullable=False),
    Column("created_by", String(255), nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
)

mirrored_views = Table(
    "vde_mirrored_views",
    metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("namespace", String(255), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("environment", String(64), nullable=False),
    Column("wanted_hash", String(64)),
    Column("definition", Text),
    Column("behind_since", Instant),
    Column("writer", String(64)),
    Column("watched_until", Instant),
    Column("failure", String(1000)),
)

# One row, written with the first publication; see `state.store`.
project = Table(
    "vde_project",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("project_id", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("named", Boolean, nullable=False),
    Column("since", Instant, nullable=False),
    Column("warehouse", String(1000)),
)

# Acts, each with the hash of the one before; see `state.db.log`.
log = Table(
    "vde_log",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Instant, nullable=False),
    Column("db_user", String(255)),
    Column("who", String(255), nullable=False),
    Column("act", String(16), nullable=False),
    Column("environment", String(64)),
    Column("version", Integer),
    Column("detail", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Index("vde_log_previous", "previous", unique=True),
    Index("vde_log_environment", "environment", "number"),
)

iceberg_metadata = MetaData()

iceberg_tables = Table(
    "iceberg_tables",
    iceberg_metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("table_namespace", String(255), primary_key=True),
    Column("table_name", String(255), primary_key=True),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
)

iceberg_namespace_properties = Table(
    "iceberg_namespace_properties",
    iceberg_metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("namespace", String(255), primary_key=True),
    Column("property_key", String(255), primary_key=True),
    Column("property_value", String(1000)),
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
