"""Add the log of acts. It starts empty, because earlier acts were not recorded."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from vde_dagster.state.db.guards.acts import put_guards

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "vde_log",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("db_user", sa.String(255)),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("act", sa.String(16), nullable=False),
        sa.Column("environment", sa.String(64)),
        sa.Column("version", sa.Integer),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.create_index("vde_log_previous", "vde_log", ["previous"], unique=True)
    op.create_index("vde_log_environment", "vde_log", ["environment", "number"])
    put_guards(op.get_bind())
