"""Messages about outbox records: what happened, and the command for the next step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from vde_dagster.api.errors import VdeError
from vde_dagster.api.plans import Change, Environment, Objection, Plan, PlanKind, Snapshot
from vde_dagster.api.values import ModelName, count, instant_text, listed
from vde_dagster.plugins.notifications.late import late_models, model_owners

if TYPE_CHECKING:
    from vde_dagster.api.workspace import AuditRecord, OutboxRecord, Workspace
    from vde_dagster.plugins.notifications.settings import Receiver

Tone = Literal["info", "success", "warning", "failure"]
_MOST_LINES = 15
_REPEAT_AFTER = timedelta(days=1)
"""Time after which rules that still block an environment are reported again."""
_LONGEST_ERROR = 600


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a message.

    Args:
        event: The event that the line reports; empty if it only explains other lines.
        owners: Owners of the models in the line; None if the line is for everyone.
    """

    text: str
    event: str = ""
    owners: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """The message about one outbox record.

    Args:
        events: Names from `EVENTS` that the message reports.
        subject: The event, in one sentence without a full stop.
        next: The next step, with the command.
        link: Link to a page of Dagster; empty if its URL is not configured.
    """

    number: int
    events: frozenset[str]
    environment: str
    tone: Tone
    subject: str
    lines: tuple[Line, ...]
    next: str
    link: str = ""

    def body(self, receiver: Receiver) -> str:
        """Return the text below the subject, with only the lines that concern the receiver."""
        own = [one.text for one in self.lines if _concerns(one, receiver)]
        shown = own[:_MOST_LINES]
        if len(own) > len(shown):
            shown.append(f"and {len(own) - len(shown)} more")
        return "\n".join([*shown, "", self.next, *([self.link] if self.link else [])]).strip()

    def is_for(self, receiver: Receiver) -> bool:
        # An owner gets it only if a line with one of the owner's events is about an owned model.
        if not self.events & receiver.events:
            return False
        if receiver.owner is None:
            return True
        own = [one for one in self.lines if one.owners and receiver.owner in one.owners]
        return any(one.event in receiver.events for one in own)


def _concerns(line: Line, receiver: Receiver) -> bool:
    return receiver.owner is None or line.owners is None or receiver.owner in line.owners


@dataclass
class Messages:
    workspace: Workspace
    _known: dict[int, Message | None] = field(default_factory=dict)

    def for_record(self, record: OutboxRecord) -> Message | None:
        """Return the message about a record, or None if the record needs no message."""
        if record.number not in self._known:
            self._known[record.number] = self._make(record)
        return self._known[record.number]

    def _make(self, record: OutboxRecord) -> Message | None:
        if record.kind == "published":
            return self._publication_message(record)
        if record.kind == "late":
            return self._late_message(record)
        if record.kind == "audit":
            return self._audit_message(record)
        if record.kind not in ("plan", "held", "failed"):
            return None
        plan = self.workspace.store.plans.find(record.subject["plan"])
        if plan is None:
            return None
        if record.kind == "held":
            return self._objection_message(record, plan)
        return (
            self._approval_message(record, plan)
            if record.kind == "plan"
            else self._failure_message(record, plan)
        )

    def _approval_message(self, record: OutboxRecord, plan: Plan) -> Message | None:
        store = self.workspace.store.plans
        known = store.record(plan.id)
        waits = known is not None and known.status == "planned" and plan.proposal is not None
        if not waits or plan.is_empty or store.find_dead([plan.id]):
            return None
        author = plan.proposal.author if plan.proposal else ""
        lines = [Line(f"proposed by {author}")] if author else []
        lines += [
            *self._objection_lines(plan),
            *self._change_lines(plan, "approval"),
            *self._break_lines(plan),
        ]
        return Message(
            record.number,
            frozenset({"approval", *_contract_events(plan)}),
            plan.environment,
            "warning" if plan.breaks else "info",
            f"the plan {plan.id} waits for an approval: {_summarize(plan)}",
            tuple(lines),
            f"Approve it with `vde apply {plan.environment} --plan {plan.id}`, or reject it with "
            f"`vde plan reject {plan.id}`.",
            self._page_url("plan", plan.id),
        )

    def _objection_message(self, record: OutboxRecord, plan: Plan) -> Message | None:
        store, found = self.workspace.store, record.subject["objections"]
        known = store.plans.record(plan.id)
        refused = any(one["level"] == "refuse" for one in found)
        if known is None or known.status != "planned" or store.plans.find_dead([plan.id]):
            return None
        if self._was_reported(record, plan) or (plan.proposal is not None and not refused):
            return None  # reported before
        event, owners = "refused" if refused else "approval", self._plan_owners(plan)
        lines = []
        for one in found:
            models = [ModelName.parse(name) for name in one["models"]]
            whose = frozenset(one["approvers"]) | _merge_owners(owners, *models)
            lines.append(Line(Objection(**one).sentence, event, whose))
        work = "the run" if plan.kind is PlanKind.RUN else f"the plan {plan.id}"
        says = "refuse" if refused else "require an approval of"
        again = f"`vde apply {plan.environment} --plan {plan.id}`"
        return Message(
            record.number,
            frozenset({event}),
            plan.environment,
            "warning",
            f"rules {says} {work} of {plan.environment}: {_summarize(plan)}",
            tuple(lines),
            f"Nothing was computed. Change what the rules object to, and plan again: "
            f"`vde plan {plan.environment}`."
            if refused
            else f"Nothing was computed. Read the plan, and approve it with {again}, or reject it "
            f"with `vde plan reject {plan.id}`.",
            self._run_url(record) or self._page_url("plan", plan.id),
        )

    def _was_reported(self, record: OutboxRecord, plan: Plan) -> bool:
        """Return whether the same broken rules of the environment were reported within a day."""
        rules, reported = _rule_names(record), None
        for other in self.workspace.store.outbox.with_kind("held"):
            is_before = 0 < other.number < record.number and _rule_names(other) == rules
            if not is_before or (reported and other.at - reported < _REPEAT_AFTER):
                continue
            known = self.workspace.store.plans.record(other.subject["plan"])
            if known is not None and known.environment == plan.environment:
                reported = other.at
        return reported is not None and record.at - reported < _REPEAT_AFTER

    def _failure_message(self, record: OutboxRecord, plan: Plan) -> Message | None:
        store, environment = self.workspace.store, plan.environment
        known = store.plans.record(plan.id)
        if known is None or known.status != "failed":
            return None  # retried since, or published: another message reports that
        own = store.outbox.for_plan(plan.id, store.outbox.number().newest)
        if any(one.kind == "failed" and one.number > record.number for one in own):
            return None
        results = store.audits.results(plan_id=plan.id, failed=True)
        owners = self._plan_owners(plan)
        found = _audit_lines(results, owners, "audit_blocked", blocking=True)
        said, lines = {model for model, _ in found}, [*found.values()]
        failed_models = self._failed_models(record, plan) - said
        lines += [
            Line(f"{one}: failed", "run_failed", _merge_owners(owners, one))
            for one in sorted(failed_models)
        ]
        if known.message:
            text = known.message
            shown = text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]} …"
            lines.append(Line(shown))
        work = "the run" if plan.kind is PlanKind.RUN else f"the plan {plan.id}"
        is_stopped = known.message == KeyboardInterrupt.__name__
        if said:
            subject = f"audits of {listed(sorted(said), 3)} block {work} of {environment}"
        else:
            subject = f"{work} of {environment} {'was stopped' if is_stopped else 'failed'}"
        again = (
            f"`vde run {environment}`"
            if plan.kind is PlanKind.RUN
            else f"`vde apply {environment} --plan {plan.id}`"
        )
        mend = "Fix the rows, or the model or its audit" if said else "Fix the cause"
        return Message(
            record.number,
            frozenset({"audit_blocked" if said else "run_failed"})
            | ({"run_failed"} if failed_models else set()),
            environment,
            "failure",
            subject,
            tuple(lines),
            f"Nothing was published, and finished work is kept. {mend}; {again} continues with "
            f"the same definitions, `vde apply {environment}` with the current files.",
            self._run_url(record) or self._page_url("apply", plan.id),
        )

    def _failed_models(self, record: OutboxRecord, plan: Plan) -> set[ModelName]:
        own = self.workspace.store.outbox.for_plan(plan.id, record.number - 1)
        before = max((one.number for one in own if one.kind == "failed"), default=0)
        tables = {
            one.subject["table"]
            for one in own
            if one.kind == "broken" and one.number > before and not one.subject["stopped"]
        }
        return {model.name for model in plan.builds if model.table and model.table.id in tables}

    def _publication_message(self, record: OutboxRecord) -> Message | None:
        name, version = record.subject["environment"], record.subject["version"]
        store = self.workspace.store
        environment = store.versions.at(name, version)
        if environment is None or store.versions.is_end(name, version):
            return None
        if environment.plan_id is None:
            return self._rollback_message(record, environment)
        plan = store.plans.find(environment.plan_id)
        if plan is None:
            return None
        who = f"by {environment.published_by} on {instant_text(environment.published_at)}"
        event = "run" if plan.kind is PlanKind.RUN else "publication"
        results = store.audits.results(plan_id=plan.id, failed=True)
        warned = _audit_lines(results, self._plan_owners(plan), event, blocking=False)
        lines = [
            Line(who),
            *self._change_lines(plan, event),
            *self._break_lines(plan),
            *warned.values(),
        ]
        return Message(
            record.number,
            frozenset({event, *_contract_events(plan)}),
            name,
            "warning" if plan.breaks else "success",
            f"{name} is at version {version}: {_summarize(plan)}",
            tuple(lines),
            f"`vde history {name}` lists its versions"
            + (f"; `vde rollback {name}` reverts this one." if version > 1 else "."),
            self._page_url("environment", name),
        )

    def _rollback_message(self, record: OutboxRecord, environment: Environment) -> Message | None:
        name, version = environment.name, environment.version
        if not environment.note.startswith("rollback"):
            return None
        who = f"by {environment.published_by} on {instant_text(environment.published_at)}"
        return Message(
            record.number,
            frozenset({"rollback"}),
            name,
            "warning",
            f"{name} was rolled back: version {version} is a {environment.note}",
            (Line(who),),
            f"The files still contain the reverted changes: `vde diff {name}` shows them, and the "
            f"next `vde apply {name}` publishes them again.",
            self._page_url("environment", name),
        )

    def _audit_message(self, record: OutboxRecord) -> Message | None:
        store, name = self.workspace.store, record.subject["environment"]
        environment = store.versions.at(name, record.subject["version"])
        results = store.audits.results(plan_id=record.subject["run"], failed=True)
        if environment is None or not any(one.blocking for one in results):
            return None
        ids = [
            entry.snapshot_id
            for one in results
            if (entry := environment.entries.get(one.model)) is not None
        ]
        owners = _owners_by_model(store.snapshots.load(ids).values())
        found = _audit_lines(results, owners, "audit_blocked", blocking=True)
        models = sorted({model for model, _ in found})
        return Message(
            record.number,
            frozenset({"audit_blocked"}),
            name,
            "failure",
            f"audits of {listed(models, 3)} found failing rows in {name}",
            tuple(found.values()),
            f"Fix the input, and recompute the range: `vde apply {name} --restate {models[0]} "
            f"--start … --end …`. Or return to the earlier version: `vde rollback {name}`.",
            self._run_url(record) or self._page_url("environment", name),
        )

    def _late_message(self, record: OutboxRecord) -> Message | None:
        name, store = record.subject["environment"], self.workspace.store
        environment = store.environments.get(name)
        found = (
            late_models(self.workspace, environment, record.at) if environment is not None else []
        )
        still = [one for one in found if str(one.name) in record.subject["models"]]
        if not still:
            return None
        models = listed([one.name for one in still], 3)
        return Message(
            record.number,
            frozenset({"late"}),
            name,
            "warning",
            f"{models} of {name} {'is' if len(still) == 1 else 'are'} late",
            tuple(Line(one.sentence(), "late", one.owners) for one in still),
            f"`vde run {name}` computes what is due; `vde check-intervals {name}` lists what is "
            "missing, and the page of its last run in Dagster shows what failed.",
            self._page_url("environment", name),
        )

    def _objection_lines(self, plan: Plan) -> Iterator[Line]:
        try:
            found = self.workspace.plans.gates.stored_objections(plan)
        except VdeError as error:
            yield Line(f"its rules cannot be evaluated: {error.message}")
            return
        for one in found:
            yield Line(one.sentence, "approval", frozenset(one.approvers))

    def _change_lines(self, plan: Plan, event: str) -> Iterator[Line]:
        owners = self._plan_owners(plan)
        for change in (Change.ADDED, Change.MODIFIED, Change.AFFECTED, Change.REMOVED):
            names = [model.name for model in plan.models if model.change is change]
            if names:
                yield Line(f"{change.value}: {listed(names)}", event, _merge_owners(owners, *names))
        if plan.restates:
            whose = _merge_owners(owners, *plan.restates)
            yield Line(f"computed again: {listed(plan.restates)}", event, whose)

    def _break_lines(self, plan: Plan) -> Iterator[Line]:
        owners = self._plan_owners(plan)
        for broken in plan.breaks:
            concerned = [broken.model, *(reader.model for reader in broken.readers)]
            text = f"breaks: {self.workspace.plans.describe(broken)}"
            yield Line(text, "contract", _merge_owners(owners, *concerned))

    def _plan_owners(self, plan: Plan) -> dict[ModelName, frozenset[str]]:
        gone = [one.previous_snapshot_id for one in plan.models if one.change is Change.REMOVED]
        before = self.workspace.store.snapshots.load([key for key in gone if key])
        return {**_owners_by_model(before.values()), **_owners_by_model(plan.snapshots.values())}

    def _page_url(self, asset: str, partition: str) -> str:
        settings = self.workspace.settings
        prefix = settings.dagster.prefix
        path = "/".join(map(quote, [*([prefix] if prefix else []), "vde", asset]))
        url = self._dagster_url
        return f"{url}/assets/{path}?view=partitions&partition={quote(partition)}" if url else ""

    def _run_url(self, record: OutboxRecord) -> str:
        run = record.dagster_run
        return f"{self._dagster_url}/runs/{run}" if run and self._dagster_url else ""

    @property
    def _dagster_url(self) -> str:
        said = self.workspace.settings.plugins.get("notify", {})
        return str(said.get("dagster_url") or "").rstrip("/")


def _summarize(plan: Plan) -> str:
    changed = sum(model.change is not Change.UNCHANGED for model in plan.models)
    parts = [f"{count(changed, 'model')} changed"] if changed else []
    if computed := len(plan.builds) - len(plan.recorded):
        parts.append(f"{computed} computed")
    if plan.recorded:
        parts.append(f"{len(plan.recorded)} recorded as filled")
    if plan.breaks:
        parts.append(count(len(plan.breaks), "breaking change"))
    return ", ".join(parts) or "nothing changed"


def _audit_lines(
    results: Iterable[AuditRecord],
    owners: Mapping[ModelName, frozenset[str]],
    event: str,
    *,
    blocking: bool,
) -> dict[tuple[ModelName, str], Line]:
    # Messages do not contain the content of rows.
    rows: dict[tuple[ModelName, str], int] = {}
    for one in results:
        if one.blocking is blocking:
            key = (one.model, one.audit)
            rows[key] = rows.get(key, 0) + one.result.failed_rows
    said = "" if blocking else ", which does not block"
    return {
        (model, audit): Line(
            f"{model}: {audit} found {count(found, 'row')}{said}",
            event,
            _merge_owners(owners, model),
        )
        for (model, audit), found in sorted(rows.items())
    }


def _rule_names(record: OutboxRecord) -> set[str]:
    return {one["rule"] for one in record.subject["objections"]}


def _contract_events(plan: Plan) -> set[str]:
    return {"contract"} if plan.breaks else set()


def _owners_by_model(snapshots: Iterable[Snapshot]) -> dict[ModelName, frozenset[str]]:
    return {one.name: model_owners(one.model) for one in snapshots}


def _merge_owners(owners: Mapping[ModelName, frozenset[str]], *names: ModelName) -> frozenset[str]:
    return frozenset[str]().union(*(owners.get(name, frozenset()) for name in names))
