"""Sensors: one plans changed files, another converts outbox records to Dagster's events.

Two projects with the same prefix in two locations would write to the same pages of `vde/plan`, and
delete each other's plans. No location sees another location's definitions, so each location
records in the instance's database which state store it shows.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from vde_dagster.base.names import current_user
from vde_dagster.errors import VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.consumer import (
    NOTHING_NEW,
    TICK_SECONDS,
    OutboxCursor,
    forward_outbox,
)
from vde_dagster.orchestration.events.plans import delete_closed_partitions, plan_tags
from vde_dagster.orchestration.events.records import SENSOR, Reporter, run_origin
from vde_dagster.orchestration.jobs.jobs import AUTO_APPLY
from vde_dagster.orchestration.location_refresh import refresh
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import Names
from vde_dagster.planning.plan.plan import Category, Change, Plan
from vde_dagster.project.loading.loader import load_project_isolated, project_hash
from vde_dagster.project.settings import AutoApply, Settings

QUIET_SECONDS = 3.0
_UNCHANGED = "the project's files are unchanged"
_HARMLESS = {
    "reuse": (Category.METADATA, Category.REUSE),
    "non_breaking": (Category.METADATA, Category.REUSE, Category.NON_BREAKING),
}


def code_sensor(root: Path, settings: Settings, jobs: Sequence[Any]) -> dg.SensorDefinition:
    @dg.sensor(
        name=Names.from_settings(settings).named("vde_code_changes"),
        description="Checks the project's files, and plans every change that affects a model.",
        jobs=jobs,
        minimum_interval_seconds=settings.dagster.sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def vde_code_changes(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            result = evaluate(root, context.cursor, context.instance, QUIET_SECONDS)
        finally:
            # Refresh after planning, which users wait for; pages show errors in files.
            warning = _refresh(context, root) if context.code_location_origin else None
        return _with_warning(result, warning) if warning else result

    return vde_code_changes


def _refresh(context: dg.SensorEvaluationContext, root: Path) -> str | None:
    assert context.code_location_origin is not None
    location = context.code_location_origin.location_name
    try:
        with Workspace.open(root) as workspace:
            rival = find_name_conflict(
                context.instance, location, workspace, datetime.now(timezone.utc)
            )
            if rival is not None:
                context.log.warning(rival)
            stale = refresh(context.instance, context.log, location, workspace)
            return ". ".join(filter(None, (rival, stale))) or None
    except VdeError:  # the tick has already failed with this error
        return None


def _with_warning(
    result: dg.SensorResult | dg.SkipReason, warning: str
) -> dg.SensorResult | dg.SkipReason:
    if isinstance(result, dg.SkipReason):
        return dg.SkipReason(f"{result.skip_message}. {warning}")
    if isinstance(result.skip_reason, dg.SkipReason):
        reason = dg.SkipReason(f"{result.skip_reason.skip_message}. {warning}")
        return result._replace(skip_reason=reason)
    return result


def evaluate(
    root: Path, cursor: str | None, instance: dg.DagsterInstance, quiet_seconds: float = 0.0
) -> dg.SensorResult | dg.SkipReason:
    """Check the project's files once, plan their changes, and request runs that show the plans."""
    try:
        found = project_hash(root)
        # The cursor is the hash of all files, followed by the plans of these files that await
        # approval. A tick on an unchanged project only reads the files' times and sizes and the
        # closed plans of the state.
        known, *made = (cursor or "").split() or [""]
        if known and found != known and quiet_seconds:
            time.sleep(quiet_seconds)
            if project_hash(root) != found:
                return dg.SkipReason(
                    "the files are being edited: the sensor plans them after a quiet period"
                )
        with Workspace.open(root) as workspace:
            workspace.work_for(run_origin(instance, SENSOR))
            reporter = Reporter(workspace, instance)
            store = workspace.store.plans
            statuses = store.statuses(made)
            waiting = [plan_id for plan_id in made if statuses.get(plan_id) == "planned"]
            past = store.find_dead(waiting)
            # If the files are unchanged, apply nothing automatically: a rollback may be the reason.
            moved = map(store.record, past if found == known else ())
            again = {record.environment for record in moved if record is not None}
            plans = _plans(workspace, again) if again or found != known else None
            for plan, _ in plans or ():
                if not plan.is_empty:
                    reporter.add_plan(plan.id)
            # This withdraws the plans of earlier files.
            delete_closed_partitions(workspace, instance)
            # Another daemon may have withdrawn some of them. Plans that a run works on stay.
            shown = set(instance.get_dynamic_partitions(str(reporter.names.plans.name)))
            # A plan that can still be approved was deleted by hand.
            lost = {plan_id for plan_id in waiting if plan_id not in shown}
            for plan_id in sorted(lost - store.closed_to_approval(lost, found)) if lost else ():
                reporter.add_plan(plan_id)
                shown.add(plan_id)
    except VdeError as error:
        # The cursor stays, so the next tick checks again.
        raise dg.Failure(str(error)) from error
    left = [plan_id for plan_id in waiting if plan_id in shown and plan_id not in past]
    if plans is None and len(left) == len(made):
        return dg.SkipReason(_UNCHANGED)
    return _result(reporter.names, found, plans, left)


def _result(
    names: Names, found: str, planned: Sequence[tuple[Plan, AutoApply]] | None, left: Sequence[str]
) -> dg.SensorResult:
    requests = []
    plans = [(plan, policy) for plan, policy in planned or () if not plan.is_empty]
    made = [plan.id for plan, _ in plans]
    for plan, policy in plans:
        asked = partial(dg.RunRequest, tags=plan_tags(plan))
        job = names.named("vde_plan_job")
        requests.append(asked(plan.id, job_name=job, partition_key=plan.id))
        if applies_itself(plan, policy):
            config = {"ops": {names.named("auto_apply"): {"config": {"plan": plan.id}}}}
            job = names.named(AUTO_APPLY)
            requests.append(asked(f"apply-{plan.id}", job_name=job, run_config=config))
    if planned is None:
        nothing = _UNCHANGED
    elif planned:
        where = ", ".join(plan.environment for plan, _ in planned)
        nothing = f"the change has no effect on {where}"
    else:
        nothing = "the plan of these files was rejected"
    return dg.SensorResult(
        run_requests=requests or None,
        skip_reason=None if made else dg.SkipReason(nothing),
        cursor=" ".join([found, *made, *left]),
    )


def applies_itself(plan: Plan, policy: AutoApply) -> bool:
    """Return whether the setting `auto_apply` applies a plan without an approval.

    Args:
        policy: `reuse` applies plans that compute nothing and change no rows. `non_breaking` also
            applies plans that only add columns or models. Only `always` applies plans that remove
            models or published columns, or change types.
    """
    if policy in ("never", "always"):
        return policy == "always"
    if plan.breaks or (policy == "reuse" and plan.builds):
        return False
    return not any(
        model.change is Change.REMOVED
        or (model.change is Change.MODIFIED and model.category not in _HARMLESS[policy])
        or (model.change is Change.AFFECTED and model.builds)
        for model in plan.models
    )


def _plans(workspace: Workspace, again: Set[str]) -> list[tuple[Plan, AutoApply]]:
    """Plan the environments in the settings, and return each plan with its apply policy.

    Plans equal to a rejected plan are closed and left out.

    Args:
        again: If not empty, environments to plan in place of the environments in the settings.
            Their plans are never applied automatically.
    """
    load_project_isolated(workspace.root)
    settings, store = workspace.settings.dagster, workspace.store
    named = dict.fromkeys([settings.default_environment, *settings.auto_apply])
    author = _author(workspace.root)
    made: list[tuple[Plan, AutoApply]] = []
    for name in sorted(again) or named:
        # Two daemons whose ticks overlap get the same plan.
        plan = workspace.plan(name, author=author, once=True)
        same = None if plan.is_empty else store.plans.find_rejected(plan)
        if same is None:
            found = workspace.plans.gates.stored_objections(plan)
            unasked = not again and all(one.level == "warn" for one in found)
            made.append((plan, settings.auto_apply.get(name, "never") if unasked else "never"))
        else:
            store.plans.set_status(plan.id, "superseded", f"the equal plan {same} was rejected")
    return made


def _author(root: Path) -> str:
    """Return the author of the project's last git commit, or the current user.

    The current user is returned if files have uncommitted changes, or git fails.
    """
    git = ["git", "-C", str(root)]
    with suppress(OSError, subprocess.SubprocessError):
        asked = partial(subprocess.run, capture_output=True, text=True, check=True, timeout=10)
        if not asked([*git, "status", "--porcelain", "--", "."]).stdout:
            return asked([*git, "log", "-1", "--format=%an", "--", "."]).stdout.strip()
    return current_user()


FORGOTTEN = timedelta(minutes=15)
"""Time after which a location without a new record counts as renamed or removed."""
_AGAIN = timedelta(minutes=1)


def find_name_conflict(
    instance: dg.DagsterInstance, location: str, workspace: Workspace, now: datetime
) -> str | None:
    """Record a location's project, and return a warning if another project has the same names.

    Warns if another location shows a project with the same prefix but another state store.
    """
    names = Names.from_settings(workspace.settings)
    key = f"vde/named/{names.prefix}"
    storage = instance.daemon_cursor_storage
    known = _parse(storage.get_cursor_values({key}).get(key))
    own = {"store": workspace.store.outbox.number().store, "root": str(workspace.root)}
    others = {
        name: other
        for name, other in known.items()
        if name != location and now - datetime.fromisoformat(other["at"]) < FORGOTTEN
    }
    before = known.get(location, {})
    if not own.items() <= before.items() or now - datetime.fromisoformat(before["at"]) > _AGAIN:
        seen = {**others, location: {**own, "at": now.isoformat()}}
        storage.set_cursor_values({key: json.dumps(seen)})
    # Locations with the same state store write the same events, so they do not conflict.
    for name, other in sorted(others.items()):
        if other["store"] != own["store"]:
            have = f"the prefix '{names.prefix}'" if names.prefix else "no prefix"
            return (
                f"Two projects of this Dagster instance have {have}, so their plans, environments "
                f"and models are mixed up: {own['root']} (code location {location}) and "
                f"{other['root']} (code location {name}). Set another prefix in the pyproject.toml "
                'of one project, such as prefix = "sales" under [tool.vde.dagster], then reload '
                "its code location"
            )
    return None


def _parse(text: str | None) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


_CONTINUES = "wrote events of other processes: the next tick continues"


def outbox_sensor(
    root: Path, settings: Settings, translator: VdeTranslator, units: Mapping[str, str]
) -> dg.SensorDefinition:
    """Return the sensor that writes the events of other processes' work.

    `units` has the time units of the location's partitions, see `AssetCatalog.time_units`.
    """

    @dg.sensor(
        name=Names.from_settings(settings).named("vde_state_news"),
        description="Writes events for plans, fills, audits, publications and rollbacks of the "
        "command line and other processes.",
        minimum_interval_seconds=min(TICK_SECONDS, settings.dagster.sensor_interval_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def vde_state_news(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        instance, cursor, budget = context.instance, context.cursor, TICK_SECONDS - 1.0
        found = forward_outbox(
            root, instance, cursor, translator, context.log, budget_seconds=budget, units=units
        )
        if context.code_location_origin and found != NOTHING_NEW:
            _refresh(context, root)  # pages show the progress of recording
        if not isinstance(found, str):
            return found
        position = OutboxCursor.parse(found)
        is_partial = position is not None and position.compared is not None
        reason = _CONTINUES if is_partial else "wrote events of other processes"
        return dg.SensorResult(cursor=found, skip_reason=dg.SkipReason(reason))

    return vde_state_news
