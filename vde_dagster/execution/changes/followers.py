"""Followers of changes: the cursors of consumers, and production's views of changes.

A module of its own: a project that has no such views reads nothing for them, and parses no SQL.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, UsageError, VdeError
from vde_dagster.planning.changes.query import SUFFIX
from vde_dagster.planning.environments.environment import PRODUCTION

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def acknowledge(
    warehouse: Warehouse,
    environment: str,
    model: ModelName,
    cursor: str,
    since: int,
    until: int,
    who: str,
) -> None:
    """Move a cursor over changes that its consumer has; doing so again changes nothing.

    Raises:
        UsageError: It is no cursor's name, or the environment has had no such version.
        ConflictError: Somebody else moved the cursor.
    """
    check_cursor(cursor)
    store = warehouse.store
    current = store.environments.get(environment)
    if current is None or not 0 < until <= current.version:
        last = current.version if current is not None else 0
        raise UsageError(
            f"environment '{environment}' has had no version {until}",
            hint=f"its last one is {last}" if last else "`vde environments` lists the environments",
        )
    store.change_cursors.move(environment, model, cursor, since, until, who)


def check_cursor(name: str) -> None:
    """Make sure that a text may be a cursor's name.

    Raises:
        UsageError: It may not.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' is not a cursor's name",
            hint="use up to 64 letters, digits, dots, hyphens and underscores, for example billing",
        )


_LOG = logging.getLogger(__name__)


def follow(warehouse: Warehouse, environment: str, who: str, *, first: bool = False) -> None:
    """Let the views of changes follow a publication; a failure is logged, and made up for later.

    Args:
        warehouse: The project's warehouse.
        first: Whether something else may only happen once they have followed.

    Raises:
        StoreError: Only where they have to follow first.
    """
    if environment != PRODUCTION:
        return
    try:
        if not _concerned(warehouse):
            return
        from vde_dagster.execution.changes.views import refresh_change_views

        found = refresh_change_views(warehouse, who)
    except ConflictError as error:
        _LOG.info("%s", error.message)  # Whoever was faster writes them.
    except VdeError as error:
        if first:
            raise
        _LOG.warning(
            "the views of changes do not show the last publication yet, which the next apply, "
            "run or clean-up makes up for: %s",
            error.message,
        )
    else:
        for name, why in found.without:
            _LOG.warning("there is no view of the changes of %s: %s", name, why)


def _concerned(warehouse: Warehouse) -> bool:
    """Say whether there are such views, or should be."""
    return bool(
        warehouse.settings.change_views or warehouse.lakehouse.views_ending(PRODUCTION, SUFFIX)
    )
