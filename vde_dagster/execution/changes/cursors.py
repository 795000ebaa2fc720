"""A consumer's cursor in the changes of a model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError

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
