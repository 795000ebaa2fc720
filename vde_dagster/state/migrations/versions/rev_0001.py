"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "vde_audit_results",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("plan_id", sa.String(length=64), nullable=False),
        sa.Column("table_id", sa.String(length=64), nullable=True),
        sa.Column("model_namespace", sa.String(length=255), nullable=False),
        sa.Column("model_name", sa.String(length=255), nullable=False),
        sa.Column("audit", sa.Text(), nullable=False),
        sa.Column("blocking", sa.Boolean(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("failed_rows", sa.BigInteger(), nullable=False),
        sa.Column("sample", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index(
        op.f("ix_vde_audit_results_plan_id"), "vde_audit_results", ["plan_id"], unique=False
    )
    op.create_index(
        op.f("ix_vde_audit_results_table_id"), "vde_audit_results", ["table_id"], unique=False
    )
    op.create_table(
        "vde_entries",
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("model_namespace", sa.String(length=255), nullable=False),
        sa.Column("model_name", sa.String(length=255), nullable=False),
        sa.Column("valid_from", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("valid_to", sa.Integer(), nullable=True),
        sa.Column("snapshot_id", sa.String(length=64), nullable=False),
        sa.Column("table_id", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("environment", "model_namespace", "model_name", "valid_from"),
    )
    op.create_index("vde_entries_valid", "vde_entries", ["environment", "valid_to"], unique=False)
    op.create_table(
        "vde_environment_versions",
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("publication_id", sa.String(length=64), nullable=False),
        sa.Column("plan_id", sa.String(length=64), nullable=True),
        sa.Column("published_at", sa.BigInteger(), nullable=False),
        sa.Column("published_by", sa.String(length=255), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("added", sa.Integer(), nullable=False),
        sa.Column("changed", sa.Integer(), nullable=False),
        sa.Column("removed", sa.Integer(), nullable=False),
        sa.Column("dropped", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("environment", "version"),
        sa.UniqueConstraint("publication_id"),
    )
    op.create_table(
        "vde_environments",
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("environment"),
    )
    op.create_table(
        "vde_fills",
        sa.Column("table_id", sa.String(length=64), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("plan_id", sa.String(length=64), nullable=False),
        sa.Column("iceberg_snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("row_count", sa.BigInteger(), nullable=True),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "start_at", "end_at", "plan_id"),
    )
    op.create_table(
        "vde_intervals",
        sa.Column("table_id", sa.String(length=64), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "start_at"),
    )
    op.create_table(
        "vde_journal",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("plan_id", sa.String(length=64), nullable=False),
        sa.Column("step", sa.String(length=255), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index(op.f("ix_vde_journal_plan_id"), "vde_journal", ["plan_id"], unique=False)
    op.create_table(
        "vde_leases",
        sa.Column("resource", sa.String(length=255), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("acquired_at", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("resource"),
    )
    op.create_table(
        "vde_namespaces",
        sa.Column("catalog_name", sa.String(length=255), nullable=False),
        sa.Column("namespace", sa.String(length=255), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("catalog_name", "namespace"),
    )
    op.create_table(
        "vde_pending_intervals",
        sa.Column("plan_id", sa.String(length=64), nullable=False),
        sa.Column("table_id", sa.String(length=64), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("branch", sa.String(length=255), nullable=False),
        sa.Column("iceberg_snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("row_count", sa.BigInteger(), nullable=True),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "table_id", "start_at", "end_at"),
    )
    op.create_table(
        "vde_plans",
        sa.Column("plan_id", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("base_version", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id"),
    )
    op.create_index("vde_plans_recent", "vde_plans", ["environment", "created_at"], unique=False)
    op.create_table(
        "vde_publications",
        sa.Column("publication_id", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("plan_id", sa.String(length=64), nullable=True),
        sa.Column("published_by", sa.String(length=255), nullable=False),
        sa.Column("files", sa.LargeBinary(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("cleaned_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("publication_id"),
    )
    op.create_index("vde_publications_cleaned", "vde_publications", ["cleaned_at"], unique=False)
    op.create_table(
        "vde_snapshots",
        sa.Column("snapshot_id", sa.String(length=64), nullable=False),
        sa.Column("model_namespace", sa.String(length=255), nullable=False),
        sa.Column("model_name", sa.String(length=255), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id"),
    )
    op.create_table(
        "vde_tables",
        sa.Column("table_id", sa.String(length=64), nullable=False),
        sa.Column("namespace", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("fill_version", sa.String(length=64), nullable=False),
        sa.Column("columns_version", sa.String(length=64), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.String(length=64), nullable=False),
        sa.Column("created", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.Column("tombstoned_at", sa.BigInteger(), nullable=True),
        sa.Column("location", sa.String(length=1000), nullable=True),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_index(
        "vde_tables_content",
        "vde_tables",
        ["fill_version", "columns_version"],
        unique=True,
        sqlite_where=sa.text("status = 'live'"),
        postgresql_where=sa.text("status = 'live'"),
    )
    op.create_index("vde_tables_place", "vde_tables", ["namespace", "name"], unique=True)
    op.create_table(
        "vde_view_types",
        sa.Column("snapshot_id", sa.String(length=64), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id"),
    )
    op.create_table(
        "vde_views",
        sa.Column("catalog_name", sa.String(length=255), nullable=False),
        sa.Column("namespace", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("definition_hash", sa.String(length=64), nullable=False),
        sa.Column("metadata_location", sa.String(length=1000), nullable=False),
        sa.Column("publication_id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("catalog_name", "namespace", "name"),
    )
    op.create_index("vde_views_environment", "vde_views", ["environment"], unique=False)
