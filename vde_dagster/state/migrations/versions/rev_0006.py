"""Which part of its views' names a version of an environment put its name in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add a column; versions without a value have it in the schema."""
    op.add_column("vde_environment_versions", sa.Column("suffix", sa.String(16), nullable=True))
