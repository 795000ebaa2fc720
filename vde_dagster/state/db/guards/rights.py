"""Guards of rights: triggers on PostgreSQL that check each row that a login writes.

They run for every row, for every program that writes it, and look up the roles of the connection's
login (`session_user`, which a client cannot set). Rows about production need the right to publish.
Most rows of the log are accepted only in the transaction that performs their act. The owner of the
tables is exempt. `rights.sql` has the functions, `triggers.sql` the triggers that call them.
"""

from __future__ import annotations

from sqlalchemy import Connection

from vde_dagster.planning.tables.table import PREVIEW_PREFIX
from vde_dagster.state.db.guards.acts import read_statements, run_statements

STALLED_SECONDS = 30
"""Maximum idle seconds of a transaction while others wait for it."""
LONGEST_SECONDS = 60
"""Maximum seconds of a writing transaction of a login without the right to publish."""
_LONGEST_LEASE = 900
"""Maximum seconds for which a login without the right to publish may take or renew a lease."""


def put_guards_of_rights(
    connection: Connection, stalled: int = STALLED_SECONDS, longest: int = LONGEST_SECONDS
) -> None:
    """Create or replace the triggers that check a login's rights for each row."""
    values = {
        "{stalled}": stalled,
        "{longest}": longest,
        "{longest_lease}": _LONGEST_LEASE,
        "{preview}": PREVIEW_PREFIX,
    }
    statements = [one for file in ("owner", "rights", "triggers") for one in read_statements(file)]
    for name, value in values.items():
        statements = [one.replace(name, str(value)) for one in statements]
    run_statements(connection, statements)
