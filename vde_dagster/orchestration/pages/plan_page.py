"""Page of a plan in `vde/plan`, checks of its queries, and plans awaiting approval."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import and_more, count
from vde_dagster.errors import VdeError
from vde_dagster.execution.plans.estimate import Estimate
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.dagster_private import CheckError
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.models.live import Combination, version_key
from vde_dagster.orchestration.names import (
    BREAKING_CHECK,
    EVALUATION,
    PUBLISHED,
    QUERIES_CHECK,
    SHORT,
    TESTS_CHECK,
    Names,
)
from vde_dagster.orchestration.pages.report_text import (
    MAX_INLINE,
    change_texts,
    report_markdown,
    short_markdown,
)
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.plan.plan import Change, Plan, PlanKind, PlannedModel
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.reports.document import count_units
from vde_dagster.reports.markdown import short_name
from vde_dagster.reports.plan import Readers, break_sentences, breaking_models, plan_report, risks
from vde_dagster.reports.plan_json import plan_json
from vde_dagster.reports.reasons import describe_breaks
from vde_dagster.state.db.leases import environment_lease
from vde_dagster.state.plans.plans import OPEN_PLANS, PlanRecord
from vde_dagster.state.store import StateStore

MAX_RECORDS = 500
MAX_EDITS = 10


def plan_metadata(
    store: StateStore,
    plan: Plan,
    estimate: Estimate | None = None,
    readers: Readers = MappingProxyType({}),
    names: Names = SHORT,
) -> dict[str, Any]:
    """Return the metadata that shows a plan: Markdown, versions, figures, and the plan as JSON."""
    previous = store.snapshots.load(
        sorted({m.previous_snapshot_id for m in plan.models if m.previous_snapshot_id})
    )
    before = _versions_before(store, plan, previous)
    changed = [model for model in plan.models if model.change is not Change.UNCHANGED]
    now = {model.name: plan.version_of(model) for model in changed}
    # A version is a partition key of its model.
    records = [
        dg.TableRecord(
            {"model": short_name(name), "from": before.get(name, ""), "version": version or ""}
        )
        for name, version in now.items()
        if version != before.get(name)
    ]
    seconds = _estimated_seconds(estimate) if estimate is not None else None
    report = plan_report(plan, previous, seconds, readers)
    is_open = store.plans.statuses([plan.id]).get(plan.id) in OPEN_PLANS
    text = report_markdown(report, names, is_open=is_open)
    shown: dict[str, Any] = {}
    if len(text) > MAX_INLINE:
        shown["summary"] = dg.MetadataValue.md(short_markdown(report, names, is_open=is_open))
        edits = change_texts(report)[:MAX_EDITS]
        # The label's column is narrow, so the text begins with the model's name.
        shown.update((f"why {n}", dg.MetadataValue.md(why)) for n, why in enumerate(edits, 1))
    if estimate is not None and estimate.models:
        shown["vde/estimate"] = estimate.sentence()
    return {
        **shown,
        "plan": dg.MetadataValue.md(text),
        "versions": dg.MetadataValue.table(records[:MAX_RECORDS], _SCHEMA),
        "vde/plan_json": dg.MetadataValue.json(plan_json(plan)),
        "vde/environment": plan.environment,
        "vde/warnings": len(plan.notices),
        "vde/computes": len(plan.computed),
        "vde/skips": sum(model.skips is not None for model in plan.builds),
        "vde/intervals": sum(
            count_units(plan.snapshots[model.snapshot_id or ""], model.intervals)
            for model in plan.builds
        ),
        "vde/views": len(plan.views.created) + len(plan.views.replaced) + len(plan.views.dropped),
    }


def _estimated_seconds(estimate: Estimate) -> Callable[[PlannedModel], float | None]:
    def seconds(model: PlannedModel) -> float | None:
        known = estimate.models.get(model.name)
        return known.seconds.expected if known is not None and known.seconds else None

    return seconds


def published_metadata(
    store: StateStore, plan: Plan, published: Environment, names: Names
) -> dict[str, Any]:
    version = f"`{published.name}` version {published.version}"
    link = names.link(names.environment_key, published.name, version)
    when = f"{published.published_at:%Y-%m-%d %H:%M} UTC"
    summary = f"**Published** by {published.published_by} on {when}, as {link}."
    shown = plan_metadata(store, plan, names=names)
    return {PUBLISHED: dg.MetadataValue.md(summary), **shown}


def rejection_metadata(record: PlanRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "rejected": f"The plan {record.id} was {record.message}.",
        "vde/plan": record.id,
        "vde/environment": record.environment,
    }
    if record.finished_at is not None:
        facts["vde/at"] = dg.MetadataValue.timestamp(record.finished_at)
    return facts


def find_readers(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, catalog: AssetCatalog, plan: Plan
) -> Readers:
    """Return the assets of the step's code location that depend on a plan's breaking changes."""
    if not plan.breaks:
        return {}
    try:
        repository = context.repository_def
    except CheckError:  # a job in this process, as in `make run`, has no code location
        return {}
    return readers_in_location(repository, catalog, plan)


def readers_in_location(
    repository: dg.RepositoryDefinition, catalog: AssetCatalog, plan: Plan
) -> Readers:
    """Return the non-model assets that depend on a plan's breaking changes, by model."""
    graph, names = repository.asset_graph, catalog.names
    models = {catalog.key(name) for name in plan.entries}
    models |= {names.environment_key, names.plan_key, names.apply_key, names.reject_key}
    found: dict[ModelName, list[str]] = {}
    for name in {broken.model for broken in plan.breaks}:
        key = catalog.key(name)
        if graph.has(key):
            own = sorted(graph.get(key).child_keys - models)
            found[name] = [f"asset {child.to_user_string()}" for child in own]
    return found


def breaking_check(plan: Plan, readers: Readers, key: dg.AssetKey) -> dg.AssetCheckEvaluation:
    found = {model.name for model in breaking_models(plan)} | {
        broken.model for broken in plan.breaks
    }
    text = [*break_sentences(plan, readers), *risks(plan)]
    return dg.AssetCheckEvaluation(
        key,
        BREAKING_CHECK,
        passed=not found,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "vde/breaking": len(found),
            "vde/risks": _lines(text),
            "vde/plan": plan.id,
            EVALUATION: plan.id,
        },
    )


def _versions_before(
    store: StateStore, plan: Plan, previous: Mapping[str, Snapshot]
) -> dict[ModelName, str]:
    base = store.versions.at(plan.environment, plan.base_version) if plan.base_version else None
    if base is None:
        return {}
    changed = {model.name for model in plan.models if model.previous_snapshot_id}
    entries = {name: entry for name, entry in base.entries.items() if name in changed}
    tables = store.tables.load(sorted({e.table_id for e in entries.values() if e.table_id}))
    shown = Combination.from_entries(entries, previous, tables)
    return {name: version_key(*served) for name, served in shown.served.items()}


_SCHEMA = dg.TableSchema([dg.TableColumn(name) for name in ("model", "from", "version")])


def wait_for_applies(workspace: Workspace, most_seconds: float = 600.0) -> bool:
    """Wait until no plan is being applied. Return False if the time is up."""
    # The JVM of an apply needs the machine's memory.
    store, until = workspace.store, time.monotonic() + most_seconds
    while True:
        with store.database.reading() as conn:
            held = store.leases.active_resources(conn)
        if not any(lease.startswith(environment_lease("")) for lease in held):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(2.0)


def checks_by_spark(
    workspace: Workspace, plan: Plan, key: dg.AssetKey, *, queries: bool
) -> Iterator[dg.AssetCheckEvaluation]:
    """Wait for applies to end, then yield the results of the checks that need Spark."""
    free = wait_for_applies(workspace)
    checks = {TESTS_CHECK: ("The unit tests could not run", _tests)}
    if queries:
        checks[QUERIES_CHECK] = ("Spark could not check the queries", _queries)
    for name, (without, check) in checks.items():
        text = "Not checked, because a plan is being applied: materialize this partition again."
        failed, facts, severity = True, dict[str, Any](), dg.AssetCheckSeverity.WARN
        if free:
            try:
                failed, text, facts = check(workspace, plan)
                severity = dg.AssetCheckSeverity.ERROR
            except VdeError as error:
                # A check that cannot run only warns.
                text = f"{without}: {error}"
        yield dg.AssetCheckEvaluation(
            key,
            name,
            passed=not failed,
            severity=severity,
            description=text,
            metadata={"vde/plan": plan.id, **facts},
        )


def _queries(workspace: Workspace, plan: Plan) -> tuple[bool, str, dict[str, Any]]:
    from vde_dagster.execution.plans.analyse_queries import analyse_plan

    found = analyse_plan(workspace, plan)
    facts = {
        "vde/analysed": len(found.analysed),
        "vde/mistakes": _lines(map(str, found.mistakes)),
        "vde/left_out": _lines(f"{name}: {why}" for name, why in found.left_out.items()),
    }
    number = len(found.mistakes)
    text = "Spark can run every query and audit that the plan changes."
    if number:
        text = f"{count(number, 'error')}: {'; '.join(map(str, found.mistakes))}"
    return bool(number), text, facts


def _tests(workspace: Workspace, plan: Plan) -> tuple[bool, str, dict[str, Any]]:
    # Spark starts only for tests that have not passed before.
    ended = [one.result for one in workspace.plans.test(plan)]
    failed = [f"{r.test.name} of {r.test.model}: {r.summary}" for r in ended if not r.passed]
    text = "The changes have no unit tests."
    if ended:
        text = f"{count(len(ended), 'unit test')} passed."
    if failed:
        text = f"An apply would publish nothing: {'; '.join(failed)}"
    return bool(failed), text, {"vde/tests": len(ended), "vde/failed": _lines(failed)}


def _lines(texts: Any) -> dg.MarkdownMetadataValue:
    return dg.MetadataValue.md("\n".join(f"- {text}" for text in texts) or "-")


def waiting_plans(catalog: AssetCatalog) -> str:
    """List the plans that await approval: effects, author, age, and breaking changes."""
    plans, names = catalog.live.waiting, catalog.names
    if not plans:
        return "**No plan awaits approval.**"
    lines = []
    for plan in reversed(plans):
        read = names.link(names.plan_key, plan.id, "read")
        approve = names.link(names.apply_key, plan.id, "approve")
        author = plan.proposal.author if plan.proposal and plan.proposal.author else "somebody"
        parts = [
            f"- **{plan.environment}: {_title(plan)}** ({read}, {approve})",
            f"by {author}, {_age(plan.created_at, catalog.live.read_at or plan.created_at)}",
            f"computes {count(len(plan.computed), 'model') if plan.computed else 'nothing'}",
        ]
        if plan.recorded:
            parts.append(f"records {count(len(plan.recorded), 'model')} as filled")
        if plan.breaks:
            parts.append(f"**breaks: {describe_breaks(plan.breaks)}**")
        lines.append("; ".join(parts))
    what = "1 plan awaits" if len(plans) == 1 else f"{len(plans)} plans await"
    return "\n".join([f"**{what} approval:**", "", *lines])


def _title(plan: Plan, most: int = 3) -> str:
    """Return a plan's title, such as `orders changed, total added and 2 more models`."""
    if plan.kind is PlanKind.RESTATEMENT:
        names = [f"`{short_name(name)}`" for name in list(plan.restates)[:most]]
        return f"recomputes {', '.join(names)}"
    if not plan.base_version:
        return f"a new environment of {count(len(plan.entries), 'model')}"
    words = {Change.MODIFIED: "changed", Change.REMOVED: "removed", Change.ADDED: "added"}
    edited = [model for change in words for model in plan.models if model.change is change]
    edits = [f"`{short_name(model.name)}` {words[model.change]}" for model in edited[:most]]
    if edits:
        return f"{', '.join(edits)}{and_more(len(edited), most)}"
    return "due intervals" if plan.builds else "views and descriptions"


def _age(made: datetime, now: datetime) -> str:
    minutes = int((now - made).total_seconds() // 60)
    text = f"made {made:%Y-%m-%d %H:%M} UTC"
    if minutes < 2:
        return text
    for size, unit in ((1440, "days"), (60, "hours")):
        if minutes >= 2 * size:
            return f"{text}, {minutes // size} {unit} old at {now:%Y-%m-%d %H:%M}"
    return f"{text}, {minutes} minutes old at {now:%H:%M}"
