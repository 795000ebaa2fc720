"""The sensors: files that changed become plans, and records of the outbox Dagster's events.

Two projects may go by the same names: within one location Dagster refuses two assets of one key.
Across locations it does not: both write to the pages of `vde/plan`, and each takes the other's
plans for forgotten ones. No location sees the others' definitions, so each says in the instance's
own database which state it shows.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.orchestration.events.consumer import (
    BUDGET_SECONDS,
    SENSOR,
    Origins,
    OutboxCursor,
    Teller,
    origin_of,
    telling,
)
from vde_dagster.orchestration.events.plans import past_plans, rejected_events
from vde_dagster.orchestration.events.provenance import Log
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.location_refresh import refresh
from vde_dagster.orchestration.models.load_live import load_catalog
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, SHORT, Names
from vde_dagster.planning.plan.plan import Category, Change, Plan

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.project.settings import AutoApply, Settings
    from vde_dagster.state import StateStore


QUIET_SECONDS = 3.0
_UNCHANGED = "the project's files are unchanged"
_HARMLESS = {
    "reuse": (Category.METADATA, Category.REUSE),
    "non_breaking": (Category.METADATA, Category.REUSE, Category.NON_BREAKING),
}


def code_sensor(
    names: Names, root: Path, settings: Settings, jobs: Sequence[Any]
) -> dg.SensorDefinition:
    """Return the sensor.

    Args:
        names: The project's names.
        root: The project's folder.
        settings: Its settings: interval, environments and what is applied without being asked.
        jobs: The jobs that it requests: `vde_plan_job` and `vde_apply_job`.
    """

    @dg.sensor(
        name=names.named("vde_code_changes"),
        description="Looks at the project's files; plans every change of their meaning.",
        jobs=jobs,
        minimum_interval_seconds=settings.dagster.sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def vde_code_changes(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            instance = context.instance
        except dg.DagsterInvariantViolationError:  # the context of a test
            instance = None
        origin = context.code_location_origin
        try:
            result = evaluate(root, context.cursor, instance, names, QUIET_SECONDS)
        finally:
            # After the plans, which are what is waited for; where a file is wrong the page says so.
            warning = _refresh(context, root) if instance and origin else None
        return _with_warning(result, warning) if warning else result

    return vde_code_changes


def _refresh(context: dg.SensorEvaluationContext, root: Path) -> str | None:
    from vde_dagster.execution.workspace import Workspace

    assert context.code_location_origin is not None
    location = context.code_location_origin.location_name
    try:
        with Workspace.open(root) as workspace:
            now = datetime.now(timezone.utc)
            rival = rival_of(context.instance, location, workspace, now)
            if rival is not None:
                context.log.warning(rival)
            stale = refresh(context.instance, context.log, location, workspace)
            return ". ".join(said for said in (rival, stale) if said) or None
    except VdeError:  # the tick has failed by it already
        return None


def _with_warning(
    result: dg.SensorResult | dg.SkipReason, warning: str
) -> dg.SensorResult | dg.SkipReason:
    """Say a warning where a tick says anything; the ticks' logs have it in any case."""
    if isinstance(result, dg.SkipReason):
        return dg.SkipReason(f"{result.skip_message}. {warning}")
    if isinstance(result.skip_reason, dg.SkipReason):
        said = dg.SkipReason(f"{result.skip_reason.skip_message}. {warning}")
        return result._replace(skip_reason=said)
    return result


def evaluate(
    root: Path,
    cursor: str | None,
    instance: dg.DagsterInstance | None,
    names: Names = SHORT,
    quiet_seconds: float = 0.0,
) -> dg.SensorResult | dg.SkipReason:
    """Look at the files once.

    The cursor is the hash of all files, so a tick on an unchanged project only asks the file
    system for times and sizes, and the state for what is past; behind it stand the plans that were
    made of those files and wait for their approval. They are withdrawn when the files change
    again, and made anew when their environment moves on. A mistake in a file fails the tick and
    leaves the cursor, so the next tick looks again.

    Args:
        root: The project's folder.
        cursor: What the last tick returned.
        instance: The Dagster instance; without one no plan is withdrawn, since nobody can tell
            whether a run works on it.
        names: The project's names.
        quiet_seconds: For how long edits have to rest before they are planned.

    Raises:
        Failure: A file is wrong; says where and what to do.
    """
    from vde_dagster.project.loading.loader import project_hash

    try:
        found = project_hash(root)
        known, *made = (cursor or "").split() or [""]
        if known and found != known and quiet_seconds:
            time.sleep(quiet_seconds)
            if project_hash(root) != found:
                return dg.SkipReason("the files are being edited: planned once they rest")
        waiting, past = _waiting(root, made, instance, names) if made else ({}, {})
        # Where not the files moved, nothing is published unasked: it may have been rolled back.
        again = frozenset(past.values() if found == known else ())
        plans = _plans(root, again, instance) if again or found != known else None
        gone = _gone(root, instance, names) if instance else {}
    except VdeError as error:
        raise dg.Failure(str(error)) from error
    withdrawn = gone.get(names.plans, ())
    left = [plan_id for plan_id in waiting if plan_id not in past and plan_id not in withdrawn]
    if plans is None and len(left) == len(made) and not any(gone.values()):
        return dg.SkipReason(_UNCHANGED)
    return _result(names, found, plans, left, gone)


def _gone(
    root: Path, instance: dg.DagsterInstance, names: Names
) -> dict[dg.DynamicPartitionsDefinition, list[str]]:
    """Return what has a partition and is past: plans on which no run works, and environments."""
    from vde_dagster.execution.workspace import Workspace

    with Workspace.open(root) as workspace:
        past = past_plans(workspace, instance, names)
        statuses = workspace.store.plans.statuses(past)
        expired = set(workspace.store.environments.expired())
    shown = instance.get_dynamic_partitions(str(names.environments.name)) if expired else ()
    return {
        names.plans: past,
        names.rejections: [plan_id for plan_id in past if statuses.get(plan_id) != "rejected"],
        names.environments: [name for name in shown if name in expired],
    }


def _result(
    names: Names,
    found: str,
    planned: Sequence[tuple[Plan, AutoApply]] | None,
    left: Sequence[str],
    gone: Mapping[dg.DynamicPartitionsDefinition, Sequence[str]],
) -> dg.SensorResult:
    """Ask for the pages of new plans, for what is applied unasked, and for partitions."""
    partitions: list[Any] = [
        shown.build_delete_request(list(keys)) for shown, keys in gone.items() if keys
    ]
    plans = planned or ()
    requests = []
    made = [plan.id for plan, _ in plans if not plan.is_empty]
    if made:
        partitions += [one.build_add_request(made) for one in (names.plans, names.rejections)]
    for plan, policy in plans:
        if not plan.is_empty:
            requests.append(_request(names.named("vde_plan_job"), plan.id, plan))
            if applies_itself(plan, policy):
                requests.append(_request(names.named("vde_apply_job"), f"apply-{plan.id}", plan))
    return dg.SensorResult(
        run_requests=requests or None,
        skip_reason=None if made else dg.SkipReason(_nothing(planned)),
        dynamic_partitions_requests=partitions,
        cursor=" ".join([found, *made, *left]),
    )


def _nothing(plans: Sequence[tuple[Plan, AutoApply]] | None) -> str:
    if plans is None:
        return _UNCHANGED
    if not plans:
        return "the plan of these files was rejected"
    return f"the change means nothing for {', '.join(plan.environment for plan, _ in plans)}"


def applies_itself(plan: Plan, policy: AutoApply) -> bool:
    """Say whether the project wants a plan applied without being asked.

    Args:
        policy: `never`; `reuse`: when nothing is computed; `non_breaking`: also when only columns
            or models are added; neither when a published column goes or changes its type;
            `always`.
    """
    if policy == "never":
        return False
    if policy == "always":
        return True
    if plan.breaks:
        return False
    if policy == "reuse" and plan.builds:
        return False
    for model in plan.models:
        if model.change is Change.REMOVED:
            return False
        if model.change is Change.MODIFIED and model.category not in _HARMLESS[policy]:
            return False
        if model.change is Change.AFFECTED and model.builds:
            return False
    return True


def _waiting(
    root: Path, plan_ids: Iterable[str], instance: dg.DagsterInstance | None, names: Names
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the plans that nobody has approved yet, and those of them that nobody can any more.

    Both by id, with their environment. Plans that somebody rejected are neither; they leave the
    pages.
    """
    from vde_dagster.execution.workspace import Workspace

    with Workspace.open(root) as workspace:
        found = (workspace.store.plans.record(plan_id) for plan_id in plan_ids)
        records = [record for record in found if record is not None]
        waiting = {r.id: r.environment for r in records if r.status == "planned"}
        past = workspace.store.plans.past(waiting)
        if instance is not None:
            reporter = Reporter(workspace.store, instance, names)
            for record in records:
                if record.status == "rejected":
                    for told in rejected_events(instance, names, record):
                        reporter.report(told)
    return waiting, {plan_id: name for plan_id, name in waiting.items() if plan_id in past}


def _plans(
    root: Path, again: Set[str], instance: dg.DagsterInstance | None
) -> list[tuple[Plan, AutoApply]]:
    """Plan what the project names, in a process without old modules.

    Args:
        root: The project's folder.
        again: Environments to plan alone, where nothing is applied without being asked.
        instance: The Dagster instance that shows the plans.

    Returns:
        Each plan, and what the project wants applied unasked in its environment. Plans that
        somebody has rejected, as they would be made again, are left out.
    """
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.project.loading.loader import load_project_isolated

    load_project_isolated(root)
    with Workspace.open(root) as workspace:
        if instance is not None:
            workspace.work_for(origin_of(instance, SENSOR))
        settings = workspace.settings.dagster
        named = dict.fromkeys([settings.default_environment, *settings.auto_apply])
        policies: dict[str, AutoApply] = {
            name: "never" if again else settings.auto_apply.get(name, "never")
            for name in (sorted(again) or named)
        }
        author = _author(root)
        made = [(workspace.plan(name, author=author), policy) for name, policy in policies.items()]
        return [each for each in made if not _was_rejected(workspace.store, each[0])]


def _author(root: Path) -> str:
    """Return who wrote what the files say: of what is committed git's author, else the user."""
    from vde_dagster.execution.warehouse import current_user

    git = ["git", "-C", str(root)]
    with suppress(OSError, subprocess.SubprocessError):
        asked = partial(subprocess.run, capture_output=True, text=True, check=True, timeout=10)
        if not asked([*git, "status", "--porcelain", "--", "."]).stdout:
            return asked([*git, "log", "-1", "--format=%an", "--", "."]).stdout.strip()
    return current_user()


def _was_rejected(store: StateStore, plan: Plan) -> bool:
    """Say whether a plan is one that somebody has rejected; it is closed then."""
    if plan.is_empty:
        return False
    same = store.plans.rejected_as(plan)
    if same is not None:
        store.plans.set_status(plan.id, "superseded", f"{same}, the same plan, was rejected")
    return same is not None


def _request(job: str, run_key: str, plan: Plan) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=run_key,
        job_name=job,
        partition_key=plan.id,
        tags={PLAN_TAG: plan.id, ENVIRONMENT_TAG: plan.environment},
    )


FORGOTTEN = timedelta(minutes=15)
"""After which a location that said nothing is taken for renamed or gone."""
_AGAIN = timedelta(minutes=1)


def rival_of(
    instance: dg.DagsterInstance, location: str, workspace: Workspace, now: datetime
) -> str | None:
    """Say which project a location shows; return a warning if another one has its names.

    Locations that show one state are no rivals: what they write is true for both.

    Args:
        location: The location's name.
        now: The present (UTC).
    """
    names = Names.of(workspace.settings)
    key = f"vde/named/{names.prefix}"
    storage = instance.daemon_cursor_storage
    known = _parse(storage.get_cursor_values({key}).get(key))
    own = {"store": workspace.store.outbox.number().store, "root": str(workspace.root)}
    others = {
        name: said
        for name, said in known.items()
        if name != location and now - datetime.fromisoformat(said["at"]) < FORGOTTEN
    }
    before = known.get(location, {})
    if not own.items() <= before.items() or now - datetime.fromisoformat(before["at"]) > _AGAIN:
        seen = {**others, location: {**own, "at": now.isoformat()}}
        storage.set_cursor_values({key: json.dumps(seen)})
    for name, said in sorted(others.items()):
        if said["store"] != own["store"]:
            have = f"the prefix '{names.prefix}'" if names.prefix else "no prefix"
            return (
                f"Two projects of this Dagster instance have {have}, so their plans, environments "
                f"and models are mixed up: {own['root']} (code location {location}) and "
                f"{said['root']} (code location {name}). Give one of them a name of its own in its "
                'pyproject.toml: prefix = "sales" under [tool.vde.dagster], then load its code '
                "location again"
            )
    return None


def _parse(text: str | None) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def outbox_sensor(root: Path, settings: Settings, translator: VdeTranslator) -> dg.SensorDefinition:
    """Return the sensor.

    Args:
        settings: Its settings: the interval.
    """

    @dg.sensor(
        name=translator.names.named("vde_state_news"),
        description="Shows what the command line and other processes planned, filled, audited, "
        "published and rolled back.",
        minimum_interval_seconds=settings.dagster.sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def vde_state_news(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        found = tell_instance(root, context.instance, context.cursor, translator, context.log)
        if isinstance(found, str):
            return dg.SensorResult(cursor=found, skip_reason=dg.SkipReason("told what others did"))
        return found

    return vde_state_news


def tell_instance(
    root: Path,
    instance: dg.DagsterInstance,
    text: str | None,
    translator: VdeTranslator,
    log: Log,
    *,
    budget_seconds: float = BUDGET_SECONDS,
) -> str | dg.SkipReason:
    """Tell a Dagster instance once what is new in a project's state.

    Without a cursor, with that of another store, or when records were forgotten since, everything
    is compared, as `vde sync` does; nothing that Dagster shows is taken away by that.

    Args:
        text: The cursor that the last tick returned.
        budget_seconds: After which the rest is left to the next tick.

    Returns:
        The new cursor, or why there was nothing to tell.

    Raises:
        Failure: The state store or the project's settings cannot be used.
    """
    from vde_dagster.execution.workspace import Workspace

    try:
        with Workspace.open(root) as workspace:
            origins, cursor = Origins(instance), OutboxCursor.parse(text)
            known = workspace.store.outbox.number()
            if cursor is not None and cursor.goes_on_to(known):
                if cursor.number == known.newest and all(map(origins.is_working, cursor.runs)):
                    return dg.SkipReason("nothing is new in the state")
            else:
                cursor = None
            with telling(workspace.store, instance):
                if cursor is not None:
                    teller = Teller(
                        workspace,
                        instance,
                        lambda: load_catalog(workspace, translator),
                        log,
                        translator.names,
                        budget_seconds,
                    )
                    return str(teller.tell_since(cursor))
                # What runs tell that are working now is looked through later.
                runs = dict.fromkeys(origins.working(workspace.store), 0)
                report = sync(
                    workspace, instance, translator, wipe=False, seconds=budget_seconds, log=log
                )
                if not report.complete:
                    return dg.SkipReason("there is more to tell: the next tick goes on")
                return str(OutboxCursor(known.store, known.newest, runs))
    except ConflictError as error:
        return dg.SkipReason(f"somebody else tells it: {error.message}")
    except VdeError as error:
        raise dg.Failure(str(error)) from error
