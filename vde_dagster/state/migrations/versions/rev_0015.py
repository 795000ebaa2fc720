"""The first schema that this package upgrades from; new stores come from `schema.metadata`."""

revision = "0015"
down_revision = None


def upgrade() -> None:
    """Do nothing: a store already has this schema, or is created with the current schema."""
