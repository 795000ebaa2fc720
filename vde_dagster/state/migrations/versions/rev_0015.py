"""First schema that can be upgraded; new stores are created from `schema.metadata`."""

revision = "0015"
down_revision = None


def upgrade() -> None:
    """Do nothing, because the store already has this schema or a newer one."""
