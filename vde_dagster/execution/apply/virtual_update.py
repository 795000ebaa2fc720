"""Statements that run after an environment's views are published."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.execution.events import VirtualUpdateRan
from vde_dagster.state.db.leases import LeaseOwner, environment_lease
from vde_dagster.state.environments.statements import WaitingStatement

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


def run_virtual_update(
    handles: Handles,
    environment: str,
    owner: LeaseOwner,
    emit: Callable[[VirtualUpdateRan], None] = lambda ran: None,
) -> tuple[VirtualUpdateRan, ...]:
    """Run the waiting statements of an environment, each at least once.

    Returns statements that failed, or did not run because another process holds the environment's
    lease.
    """
    # A failing statement does not prevent other statements from running. The next apply retries it.
    # The engine is started, and the environment locked, only if a statement waits.
    store = handles.store
    if not store.statements.waiting(environment):
        return ()
    ran: list[VirtualUpdateRan] = []
    try:
        with store.leases.holding(environment_lease(environment), owner):
            for one in store.statements.waiting(environment):
                ran.append(_run(handles, environment, one))
                emit(ran[-1])
    except ConflictError as error:
        for one in store.statements.waiting(environment):
            ran.append(VirtualUpdateRan(environment, one.model, one.statement, error.message))
            emit(ran[-1])
    return tuple(one for one in ran if one.error is not None)


def _run(handles: Handles, environment: str, one: WaitingStatement) -> VirtualUpdateRan:
    store = handles.store
    try:
        with store.database.effects.at("virtual_update.run", one.statement):
            handles.engine().run_statement(one.statement)
    except VdeError as error:
        # The views are published: failures are reported, but nothing is rolled back.
        store.statements.failed(one, error.message)
        return VirtualUpdateRan(environment, one.model, one.statement, error.message)
    store.statements.done(one)
    return VirtualUpdateRan(environment, one.model, one.statement, None)
