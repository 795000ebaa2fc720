"""Completion of a plan: warnings, `before_all` statements, a readable id, checks for Spark."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.texts import listed
from vde_dagster.errors import ProjectError
from vde_dagster.execution.apply.plan_tests import PlanTests
from vde_dagster.planning.environments.environment import PRODUCTION, ViewNames
from vde_dagster.planning.environments.warehouse_state import WarehouseState
from vde_dagster.planning.plan.plan import (
    NO_STATEMENTS,
    Change,
    EnvironmentStatements,
    Plan,
    PlanKind,
    PlannedModel,
)
from vde_dagster.planning.snapshots.snapshot import column_types
from vde_dagster.sql.other_dialects import SPARKS

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


def project_warnings(handles: Handles) -> tuple[str, ...]:
    """Warn if the state may be another project's, or if it is empty but the warehouse is not.

    Raises:
        UsageError: The state belongs to another project.
    """
    return (*_warn_of_other_name(handles), *_warn_of_empty_state(handles))


def _warn_of_other_name(handles: Handles) -> Iterator[str]:
    owner, own = handles.store.project.require_own(), handles.settings.identity
    if owner is None or handles.settings.state_url is None or not own.may_be_other(owner):
        return
    yield (
        f"the state store was written by a project in a folder '{owner.name}', but this is "
        f"{own}; if these are two projects, set another state_url in this one; if not, set the "
        "same id (or name) under [tool.vde] in every checkout"
    )


def _warn_of_empty_state(handles: Handles) -> Iterator[str]:
    if not handles.store.project.is_new():
        return
    found: list[str] = []
    with suppress(OSError):  # Writers report an unreadable warehouse.
        found = handles.lakehouse.find_vde_folders()
    if found:
        from vde_dagster.state.db.database import without_password

        settings = handles.settings
        yield (
            f"the state store {without_password(settings.resolved_state_url)} is new, but the "
            f"warehouse {settings.resolved_warehouse} already has tables and views (in "
            f"{', '.join(found[:3])}{', …' if found[3:] else ''}). If they belong to this project, "
            "the project's state is elsewhere or was lost, and the plan recomputes everything: "
            "check state_url and VDE_STATE_URL, or import the state (vde state import)"
        )


def require_engine_for(plan: Plan, handles: Handles, tests: PlanTests | None) -> None:
    """Raise NoSparkError if an apply of the plan needs Spark, but Spark is not available."""
    if (
        any(map(_needs_spark, plan.models))
        or plan.statements
        or _has_unanalyzed_views(plan, handles)
        or (tests is not None and tests.needs_spark(plan))
    ):
        handles.require_engine()


def require_right_to_preview(handles: Handles, plan: Plan) -> None:
    """For a plan that writes branches of production's tables, require the right to publish.

    Raises:
        NotAllowedError: The login lacks the right to publish; nothing was changed.
    """
    # A preview is a branch of the table, so each write to the branch moves the table's pointer.
    previews = {
        model.table.preview.of: model
        for model in plan.models
        if model.table is not None and model.table.preview is not None and _needs_spark(model)
    }
    if not previews:
        return
    with handles.store.database.reading() as conn:
        shown = handles.store.shown.tables_in(conn, PRODUCTION, previews)
    if shown:
        name = previews[min(shown)].name
        what = f"preview a change in place of {name}, which writes a branch of production's table"
        handles.store.rights.require("publish", what)


def _needs_spark(model: PlannedModel) -> bool:
    computes = model.builds and not model.records_only and model.skips is None
    new = model.table is not None and not model.table.created and model.snapshot_id is not None
    return computes or new or model.audits or model.layout or model.deploys


def _has_unanalyzed_views(plan: Plan, handles: Handles) -> bool:
    shown = {
        entry.snapshot_id
        for entry in plan.entries.values()
        if entry.table_id is None
        and plan.snapshots[entry.snapshot_id].model.kind.is_shown
        and plan.snapshots[entry.snapshot_id].model.query is not None
    }
    return bool(shown) and len(handles.store.snapshots.view_types(shown)) < len(shown)


def damage_warnings(state: WarehouseState, environment: str) -> Iterator[str]:
    """Yield warnings on damaged definitions in the state store, and on their repair."""
    for name in state.mended:
        yield (f"the stored definition of {name} was damaged; it is restored from its file")
    for name in state.left_out:
        yield (
            f"the definition of {name} in '{environment}', or in production, cannot be read "
            "from the state store; the plan treats the model as changed"
        )


def with_statements(handles: Handles, plan: Plan) -> Plan:
    """Add the project's `before_all` and `after_all` statements to a plan."""
    settings = handles.settings
    before = handles.store.statements.around_runs(plan.environment)
    made = NO_STATEMENTS
    around = handles.project.around
    if settings.before_all or settings.after_all or any(around):
        from vde_dagster.planning.rendering.views import replace_models_by_views
        from vde_dagster.project.loading.environment_statements import environment_statements

        names = ViewNames(plan.environment, settings.environment_suffix_target)
        shown = {
            name
            for name, entry in plan.entries.items()
            if plan.snapshots[entry.snapshot_id].model.kind.is_shown
        }
        refs = [names.ref(name) for name in shown]
        own = environment_statements(
            settings,
            plan.environment,
            schemas=sorted({ref.namespace for ref in refs}),
            views=sorted(f"{settings.catalog}.{ref.namespace}.{ref.name}" for ref in refs),
        )
        _check_operators((*own[0], *own[1]), settings.dialect, plan, settings.trusted_functions)
        dialect = handles.project.around_dialect
        _check_operators((*around[0], *around[1]), dialect, plan, settings.trusted_functions)
        made = EnvironmentStatements(own[0] + around[0], own[1] + around[1]).map(
            lambda text: replace_models_by_views(
                text,
                lambda name: names.quoted(name, settings.catalog) if name in shown else None,
                settings.catalog,
            )
        )
    if made == before:
        return replace(plan, statements=made) if made else plan
    return replace(plan, statements=made, other_statements=True)


def _check_operators(
    statements: Iterable[str], dialect: str, plan: Plan, trusted: frozenset[str]
) -> None:
    if dialect in SPARKS:
        return
    from vde_dagster.semantics.checks.operands import Origin
    from vde_dagster.semantics.translated import find_operators

    schema = column_types({one.name: one for one in plan.snapshots.values()})
    mistakes = [
        ProjectError(f"the statement '{text}': {found.message}", hint=found.hint)
        for text in statements
        for found in find_operators(text, schema, Origin(dialect, trusted))
    ]
    if mistakes:
        raise ProjectError.combine(mistakes)


MAX_ID = 24
"""Maximum length of a plan's id. Dagster's lists of partitions show ids of this length in full."""
_RANDOM_LENGTH = 6
_DIGITS = string.digits + string.ascii_lowercase


def readable_id(plan: Plan, change: str) -> str:
    """Create a plan id of environment, day (UTC) and change, such as `prod-29Nov-orders-x7k2p9`."""
    # The id is also used in names of branches and files, so it has only letters, digits, `-` and
    # `_`. The environment's name and the change are cut to fit.
    tail = "".join(secrets.choice(_DIGITS) for _ in range(_RANDOM_LENGTH))
    when = f"{plan.created_at:%d%b}"
    room = MAX_ID - len(f"-{when}-{tail}")
    head = plan.environment[:room].rstrip("-_")
    word = re.sub(r"\W+", "_", change, flags=re.ASCII).strip("_")
    word = word[: max(room - len(f"{head}-"), 0)].rstrip("_")
    return "-".join(part for part in (head, when, word, tail) if part)


def name_change(plan: Plan, state: WarehouseState) -> str:
    """Name a plan's change for its id: `orders_with_total`, `orders_and_3_more`, `new` or `run`."""
    if plan.kind is not PlanKind.PLAN:
        return str(plan.kind.value)
    edited = [model for model in plan.models if model.change in (Change.MODIFIED, Change.REMOVED)]
    edited += [model for model in plan.models if model.change is Change.ADDED]
    if not plan.base_version or not edited:
        return "" if plan.base_version else "new"
    first, *others = edited
    if others:
        return f"{first.name.name}_and_{len(others)}_more"
    if first.change is not Change.MODIFIED:
        return f"{first.name.name}_{first.change.value}"
    old = state.snapshots.get(first.previous_snapshot_id or "")
    new = plan.snapshots.get(first.snapshot_id or "")
    known = {column.name.lower() for column in old.columns} if old and old.columns else set()
    added = [c.name for c in new.columns or () if c.name.lower() not in known] if new else []
    name = str(first.name.name)
    return f"{name}_with_{added[0]}" if known and len(added) == 1 else name


def lost_table_warnings(handles: Handles, plan: Plan, state: WarehouseState) -> Iterator[str]:
    """Warn if the catalog has lost tables that the environment shows after the plan."""
    catalog = handles.lakehouse.catalog
    if catalog.form.follows:  # It would need a request per table. A publication looks up new ones.
        return
    known = ((name, state.tables.get(entry.table_id or "")) for name, entry in plan.entries.items())
    shown = {name: table.ref for name, table in known if table is not None and table.created}
    there = catalog.pointers(shown.values()) if shown else {}
    if lost := [name for name, ref in shown.items() if ref not in there]:
        yield (
            f"the catalog '{catalog.name}' lacks the tables of {listed(lost, 3)}, although they "
            "count as filled. Queries of them fail; `vde fsck` names each table and its repair"
        )
