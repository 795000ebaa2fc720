"""Add a column for values that plug-ins store with each version of an environment."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("vde_environment_versions", sa.Column("kept", sa.LargeBinary))
