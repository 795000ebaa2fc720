"""Alembic's environment: runs revisions on the connection that `migrate` hands over."""

from __future__ import annotations

from alembic import context

from vde_dagster.state.db.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=False,  # the transaction is the caller's: it holds the lock
)
context.run_migrations()
