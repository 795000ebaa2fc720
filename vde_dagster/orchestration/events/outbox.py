"""Events for Dagster of the state's outbox since the last time, each once.

What the runs of this Dagster instance do they tell themselves. So their news are left alone while
they work, and looked through only when they did not end well: then a process may have died between
a commit and its event. Whatever is told is looked for first, so being told to twice is harmless:
the cursor moves after the events are written, and a tick that dies is repeated.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.execution.unit_testing.test_report import ToldTest
from vde_dagster.orchestration.events.checks import Audited, AuditEvents
from vde_dagster.orchestration.events.fill_events import ToldFills
from vde_dagster.orchestration.events.plan_events import (
    Origins,
    forget_past_plans,
    report_applied,
    report_failed,
    report_page,
    show_rejected,
    stored_plan,
)
from vde_dagster.orchestration.events.publication import combination_of, published_events
from vde_dagster.orchestration.events.records import Reporter, delete_partition
from vde_dagster.orchestration.events.unit_test_checks import report_tests
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, Names
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.plan.plan import Plan

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.orchestration.events.sync import Sync
    from vde_dagster.state.db.outbox import News, NewsPlace


MOST_NEWS = 5_000
"""Read at a time."""
BUDGET_SECONDS = 20.0
"""After which a tick leaves the rest to the next one: Dagster gives up ticks of a minute."""

Log = logging.Logger | dg.DagsterLogManager


@dataclass(frozen=True, slots=True)
class NewsCursor:
    """How far the news were told to a Dagster instance.

    Args:
        store: The state store's own name.
        number: The last news that was told or left to a run.
        runs: Runs that were working, with the number before the first of their news.
    """

    store: str
    number: int
    runs: dict[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> NewsCursor | None:
        """Read what `str` wrote; None when it is nothing of the kind."""
        try:
            values = json.loads(text or "")
            return cls(str(values["store"]), int(values["number"]), dict(values["runs"]))
        except (ValueError, KeyError, TypeError):
            return None

    def __str__(self) -> str:
        return json.dumps({"store": self.store, "number": self.number, "runs": self.runs})

    def goes_on_to(self, place: NewsPlace) -> bool:
        """Say whether all news since then are in a store, which is the same."""
        return self.store == place.store and place.oldest - 1 <= self.number <= place.newest


@dataclass
class Teller:
    """Tells news to a Dagster instance.

    Args:
        load: Loads what the code location shows, when there is something to tell.
        log: Takes what could not be shown.
        names: The project's assets and partitions.
        budget_seconds: How long to go on before the rest is left to the next time.
    """

    workspace: Workspace
    instance: dg.DagsterInstance
    load: Callable[[], AssetCatalog]
    log: Log
    names: Names
    budget_seconds: float = BUDGET_SECONDS
    _catalog: AssetCatalog | None = None
    _plans: dict[str, Plan | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = self.workspace.store
        self.reporter = Reporter(self.store, self.instance, self.names)
        self.origins = Origins(self.instance)
        self._fills = ToldFills(
            self.workspace, self.instance, lambda: self.catalog, self.log, self.reporter
        )
        self._until = time.monotonic() + self.budget_seconds

    @property
    def catalog(self) -> AssetCatalog:
        """What the code location shows."""
        if self._catalog is None:
            self._catalog = self.load()
        return self._catalog

    @property
    def is_late(self) -> bool:
        """Whether the rest is left to the next time."""
        return time.monotonic() > self._until

    def tell_since(self, cursor: NewsCursor) -> NewsCursor:
        """Tell what is new; return how far that went.

        Args:
            cursor: What the last call returned.
        """
        runs = dict(cursor.runs)
        for run_id, after in cursor.runs.items():
            if not self.origins.is_working(run_id):
                del runs[run_id]
                if not self.origins.told_all(run_id):
                    origin = self.origins.origin(run_id)
                    rest = self._tell(self.store.news.by(origin, after, cursor.number))
                    if rest is not None:
                        runs[run_id] = rest.number - 1
        number = cursor.number
        while news := self.store.news.since(number, MOST_NEWS):
            others: list[News] = []
            for item in news:
                own = self.origins.run_of(item.origin)
                if own is not None and self.origins.is_working(own):
                    runs.setdefault(own, item.number - 1)
                elif own is None or not self.origins.told_all(own):
                    others.append(item)
            left = self._tell(others)
            number = left.number - 1 if left is not None else news[-1].number
            if left is not None:
                break
        # A run whose news begin after what is told so far is met again.
        runs = {run_id: after for run_id, after in runs.items() if after < number}
        if self.reporter.written:
            forget_past_plans(self.workspace, self.instance, self.names)
        return NewsCursor(cursor.store, number, runs)

    def _tell(self, news: Sequence[News]) -> News | None:
        """Tell news in order; return the first that is left, when time is over."""
        self._fills.forget()
        done: set[int] = set()
        for place, item in enumerate(news):
            if item.number in done:
                continue
            if self.is_late and place:
                return item
            if item.kind == "published":
                # A publication writes its version before the fills that it makes visible.
                for later in news[place + 1 :]:
                    same = later.subject.get("plan") == item.subject["plan"]
                    if later.kind == "fill" and same and later.number not in done:
                        self._tell_one(later)
                        done.add(later.number)
            self._tell_one(item)
        return None

    def _tell_one(self, item: News) -> None:
        subject = item.subject
        if item.kind == "plan":
            self._plan(item)
        elif item.kind == "fill":
            plan = self.plan(subject["plan"])
            if plan is not None:
                self._fills.tell(item, plan)
        elif item.kind == "failed":
            self._failed(item)
        elif item.kind == "rejected":
            record = self.store.plans.record(subject["plan"])
            if record is not None:
                self.reporter.plans += show_rejected(
                    self.store, self.instance, self.names, [record]
                )
        elif item.kind == "published":
            self._published(item)
        elif item.kind == "audit":
            self.tell_audits(subject["run"], subject["environment"], subject["version"])
        elif item.kind == "test":
            report_tests(self.reporter, self.catalog, [ToldTest.from_json(subject)])

    def _plan(self, item: News) -> None:
        plan_id = item.subject["plan"]
        if self._is_own(item) and not self._is_shown(plan_id):
            return
        if not self.store.plans.closed_to_approval([plan_id], self._files):
            plan = self.plan(plan_id)
            if plan is not None:
                report_page(self.reporter, self.catalog, plan)

    @property
    def _files(self) -> str:
        from vde_dagster.project.loading.loader import project_hash

        return project_hash(self.workspace.root)

    def _is_shown(self, plan_id: str) -> bool:
        """Say whether a plan has a partition: one of a fill on demand was never to be approved."""
        return plan_id in set(self.instance.get_dynamic_partitions(str(self.names.plans.name)))

    def _failed(self, item: News) -> None:
        plan_id = item.subject["plan"]
        record, plan = self.store.plans.record(plan_id), self.plan(plan_id)
        if record is None or plan is None or record.status != "failed":
            return  # forgotten, or tried again since: what came of that is told, too
        if self._is_own(item):
            for event in AuditEvents(self.catalog, self.store, self.instance).unpublished(plan):
                self.reporter.report(event)
        else:
            report_failed(self.reporter, self.catalog, plan, record)

    def _published(self, item: News) -> None:
        name, number = item.subject["environment"], item.subject["version"]
        environment = self.store.versions.at(name, number)
        if environment is None:
            return
        if not self.store.environments.exists(name):
            delete_partition(
                self.store.database.effects, self.instance, self.names.environments, name
            )
            return
        if not environment.entries and self.store.versions.is_end(name, number):
            return
        plan = self.plan(environment.plan_id) if environment.plan_id else None
        tags = {ENVIRONMENT_TAG: name}
        if environment.plan_id:
            tags[PLAN_TAG] = environment.plan_id
        built = {model.name for model in plan.builds} if plan is not None else set()
        # Where Dagster has to forget an asset, its checks go, too.
        back = self._gone_back(environment) if plan is None else None
        for event in published_events(
            self.catalog, self.store, self.instance, environment, built=built, tags=tags
        ):
            self.reporter.report(event)
        if back is not None:
            back.checks()
        if plan is None:
            return
        if not self._is_own(item) or self._is_shown(plan.id):
            report_page(self.reporter, self.catalog, plan)
            if not self.reporter.has(self.names.apply_key, plan.id):
                report_applied(self.reporter, plan, environment)

    def _gone_back(self, environment: Environment) -> Sync | None:
        """Show what tables hold that a rollback has taken back; return what shows their checks."""
        from vde_dagster.orchestration.events.sync import Sync, gone_back

        tables = gone_back(self.store, environment)
        if not tables:
            return None
        sync = Sync(self.workspace, self.instance, self.catalog, self.log, None)
        sync.tables(tables)
        return sync

    def tell_audits(self, run_id: str, name: str, version: int) -> None:
        """Tell what audits found that ran by themselves."""
        environment = self.store.versions.at(name, version)
        if environment is None:
            return
        combination = combination_of(self.store, environment)
        records = self.store.audits.results(plan_id=run_id)
        audits = AuditEvents(self.catalog, self.store, self.instance)
        for model in dict.fromkeys(record.model for record in records):
            entry = environment.entries.get(model)
            if entry is None:
                continue
            table = combination.tables.get(entry.table_id) if entry.table_id else None
            own = [record for record in records if record.model == model]
            snapshot = combination.snapshots[entry.snapshot_id]
            audited = Audited(snapshot, table, own, name, version, run_id)
            for event in audits.of(audited, only_new=True):
                self.reporter.report(event)

    def plan(self, plan_id: str) -> Plan | None:
        """Return a plan, read once; None when it was forgotten."""
        if plan_id not in self._plans:
            self._plans[plan_id] = stored_plan(self.store, plan_id)
        return self._plans[plan_id]

    def _is_own(self, item: News) -> bool:
        return self.origins.run_of(item.origin) is not None
