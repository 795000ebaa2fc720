"""The oldest schema that can be upgraded; its upgrade is the start and changes nothing."""

revision = "0015"
down_revision = None


def upgrade() -> None:
    pass
