"""What makes it doubtful that a state is the one of this project, said before it is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


def doubts(warehouse: Warehouse) -> tuple[str, ...]:
    """Return warnings for a plan of the project's files.

    Raises:
        UsageError: The state certainly belongs to another project.
    """
    return (*_other_name(warehouse), *_new_beside_old(warehouse))


def _other_name(warehouse: Warehouse) -> Iterator[str]:
    """Doubt a state elsewhere that was written from a folder of another name."""
    owner, own = warehouse.store.project.require_own(), warehouse.settings.identity
    if owner is None or warehouse.settings.state_url is None or not own.may_be_other(owner):
        return
    yield (
        f"the state store was written by a project in a folder '{owner.name}', and this is "
        f"{own}; if they are two, give this one a state of its own (state_url); if they are one, "
        "let the settings say so in every checkout: an id (or a name) below [tool.vde]"
    )


def _new_beside_old(warehouse: Warehouse) -> Iterator[str]:
    """Doubt a state in which nothing is, where the warehouse has tables."""
    if not warehouse.store.project.is_new():
        return
    found: list[str] = []
    with suppress(OSError):  # What cannot be listed says nothing; who writes there says why.
        found = warehouse.lakehouse.left_by_others()
    if found:
        from vde_dagster.state.database import without_password

        settings = warehouse.settings
        yield (
            f"the state store {without_password(settings.resolved_state_url)} is new, but the "
            f"warehouse {settings.resolved_warehouse} has tables and views already (in "
            f"{', '.join(found[:3])}{', …' if found[3:] else ''}): if they are this project's, "
            "the state is the wrong one, and all would be computed again: look at state_url and "
            "VDE_STATE_URL, or import the state (vde state import)"
        )
