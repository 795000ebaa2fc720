"""The oldest schema that can be upgraded. This revision changes nothing."""

revision = "0015"
down_revision = None


def upgrade() -> None:
    pass
