"""Whether a version of production had tables in place of views."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add a column; versions without a value had views."""
    op.add_column("vde_environment_versions", sa.Column("mode", sa.String(16), nullable=True))
