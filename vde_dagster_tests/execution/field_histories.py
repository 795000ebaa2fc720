"""Random histories of struct fields that change in place, read by Spark and by PyIceberg.

A forward-only model has one column per form of nesting. Its definitions add, drop, add again,
retype and reorder fields of all of them, in production and two other environments that preview,
publish, run, restate and roll back. Every row says which definition filled it, so that what each
environment must show follows from the definitions' texts alone: the fields of the definition that
it shows, under their names and types, with the values that the filling definition gives them, NULL
where that definition lacks the field.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from vde_dagster.errors import VdeError
from vde_dagster.execution.query.read_rows import read_rows
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.changes.columns import ColumnEvent
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster_tests.projects import ProjectFolder

FIRST = date(2024, 1, 1)
ENVIRONMENTS = ("prod", "dev", "qa")
TYPES = ("STRING", "BIGINT")
FORMS = {
    "st": "IF(id % 3 = 0, NULL, {})",
    "li": "array({}, NULL)",
    "ma": "map('k', {})",
    "deep": "struct(IF(id % 3 = 0, NULL, {}) AS i, id AS j)",
    "lima": "array(map('k', struct(array({}) AS a)))",
}
"""The columns: an expression around the struct whose fields change."""
Struct = tuple[tuple[str, str], ...]
"""Names and types of the fields of a struct."""


@dataclass(frozen=True)
class Definition:
    """A definition of the model: its number, and the fields by column."""

    number: int
    fields: dict[str, Struct]

    def text(self, kind: str, days: int) -> str:
        """Write the model's file."""
        made = (
            f"{FORMS[column].format(self._struct(own))} AS {column}"
            for column, own in self.fields.items()
        )
        rows = ", ".join(
            f"({2 * n + m}, DATE '{FIRST + timedelta(n)}')" for n in range(days) for m in (1, 2)
        )
        return (
            f"MODEL (name q.m, start '{FIRST}', cron '@daily', kind {kind});\n"
            f"SELECT id, d, {self.number} AS made_by, {', '.join(made)}\n"
            f"FROM VALUES {rows} AS v(id, d)"
            + (" WHERE d BETWEEN @start_date AND @end_date" if "TIME" in kind else "")
        )

    def _struct(self, own: Struct) -> str:
        values = {"STRING": "concat('{0}{1}-', id)", "BIGINT": "CAST(id * 100 + {1} AS BIGINT)"}
        parts = (f"'{name}', {values[kind].format(name, self.number)}" for name, kind in own)
        return f"named_struct({', '.join(parts)})"

    def value(self, name: str, kind: str, id_: int) -> Any:
        """Return the value of a field in a row."""
        return f"{name}{self.number}-{id_}" if kind == "STRING" else id_ * 100 + self.number


@dataclass
class History:
    """One history.

    Args:
        kept: Fields that every definition so far has, with one type: they are never NULL.
    """

    folder: ProjectFolder
    random: random.Random
    kind: str
    days: int = 12
    definitions: list[Definition] = field(default_factory=list)
    shown: dict[str, int] = field(default_factory=dict)
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    day: int = 2
    counts: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    seen: dict[str, dict[int, tuple[list[str], Counter[tuple[str, ...]]]]] = field(
        default_factory=dict
    )

    def play(self, steps: int) -> None:
        """Play a history, and compare every environment after every step."""
        first = Definition(0, dict.fromkeys(FORMS, (("x", "STRING"), ("y", "STRING"))))
        self.definitions.append(first)
        self._write(first)
        self._publish("prod")
        self._compare()
        for _ in range(steps):
            self._step()
            self.counts["steps"] += 1
            self._compare()
        # Rows of other environments' versions move with production's tables.
        self._check_changes("prod")

    def _step(self) -> None:
        acts = (
            (self._edit, 5),
            (self._revert, 1),
            (self._apply, 3),
            (self._run, 3),
            (self._restate, 2),
            (self._roll_back, 2),
        )
        self.random.choices([one for one, _ in acts], [weight for _, weight in acts])[0]()

    def _write(self, definition: Definition) -> None:
        self.folder.write("models/m.sql", definition.text(self.kind, self.days))
        self.current = definition

    def _edit(self) -> None:
        fields = {column: self._changed(own) for column, own in self.current.fields.items()}
        made = Definition(len(self.definitions), fields)
        self.definitions.append(made)
        self._write(made)
        self.log.append(f"edit {made.number}: {fields}")
        self._apply()

    def _changed(self, own: Struct) -> Struct:
        if self.random.random() < 0.4:
            return own
        fields = dict(own)
        act = self.random.choice(("add", "add", "drop", "retype", "order"))
        free = [name for name in ("y", "z", "w") if name not in fields]
        others = [name for name in fields if name != "x"]
        if act == "add" and free:
            fields[self.random.choice(free)] = self.random.choice(TYPES)
        elif act == "drop" and others:
            del fields[self.random.choice(others)]
        elif act == "retype" and others:
            fields[self.random.choice(others)] = self.random.choice(TYPES)
        listed = list(fields.items())
        if act == "order":
            self.random.shuffle(listed)
        return tuple(listed)

    def _revert(self) -> None:
        made = self.random.choice(self.definitions)
        self.log.append(f"revert to {made.number}")
        self._write(made)
        self._apply()

    def _apply(self) -> None:
        self._publish(self.random.choice(ENVIRONMENTS))

    def _now(self) -> datetime:
        now = FIRST + timedelta(self.day)
        return datetime(now.year, now.month, now.day, 1, tzinfo=timezone.utc)

    def _publish(self, environment: str, **options: Any) -> None:
        self.day = min(self.day + self.random.choice((0, 0, 1)), self.days)
        said = PlanOptions(allow_destructive=("q.*",), **options)
        self.log.append(f"apply {environment} on {self.day} {options}")
        with Workspace.open(self.folder.root) as workspace:
            plan = workspace.plan(environment, said, now=self._now())
            done = workspace.apply(plan)
            if done.published:
                self.counts["published"] += 1
                self._note(workspace, environment, None if options else self.current.number)
        if not options:
            self.shown[environment] = self.current.number

    def _note(self, workspace: Workspace, environment: str, number: int | None) -> None:
        made = workspace.store.environments.get(environment)
        assert made is not None
        shown = self.shown[environment] if number is None else number
        self.versions[environment, made.version] = shown

    def _run(self) -> None:
        self.day = min(self.day + 1, self.days)
        for environment in self.shown:
            self.log.append(f"run {environment} on {self.day}")
            with Workspace.open(self.folder.root) as workspace:
                workspace.apply(workspace.plans.due(environment, now=self._now()))
                self._note(workspace, environment, None)

    def _restate(self) -> None:
        if "TIME" not in self.kind:
            return
        environment = self.random.choice(list(self.shown))
        first = FIRST + timedelta(self.random.randrange(self.day - 1))
        start = datetime(first.year, first.month, first.day, tzinfo=timezone.utc)
        until = start + timedelta(self.random.choice((1, 2)))
        try:
            self._publish(environment, restate=("q.m",), start=start, end=until)
            self.counts["restated"] += 1
        except VdeError as error:
            self.log.append(f"  refused: {error.message}")
            self.counts["refused"] += 1

    def _roll_back(self) -> None:
        environment = self.random.choice(list(self.shown))
        earlier = [
            (version, number)
            for (name, version), number in self.versions.items()
            if name == environment
        ][:-1]
        if not earlier:
            return
        version, number = self.random.choice(earlier)
        only = self.random.random() < 0.5
        self.log.append(f"roll back {environment} to {version} ({number}) {only}")
        with Workspace.open(self.folder.root) as workspace:
            try:
                workspace.environments.rollback(environment, version, definitions_only=only)
            except VdeError as error:
                self.log.append(f"  refused: {error.message}")
                self.counts["refused"] += 1
                return
            self.shown[environment] = number
            self._note(workspace, environment, number)
            self.counts["rollbacks"] += 1

    def _compare(self) -> None:
        with Workspace.open(self.folder.root) as workspace:
            for environment, number in self.shown.items():
                asked = workspace.query(environment, "SELECT * FROM q.m ORDER BY id, d")
                names = [name for name, _ in asked.columns]
                rows = [dict(zip(names, row, strict=True)) for row in asked.rows]
                self._check(environment, self.definitions[number], rows)
                self.counts["rows"] += len(rows)
                made = workspace.store.environments.get(environment)
                assert made is not None
                kept = Counter(_texts(row) for row in asked.rows)
                self.seen.setdefault(environment, {})[made.version] = names, kept
                plain = read_rows(workspace, environment, "q.m", order_by=("id", "d"))
                assert _plain(plain.rows.to_pylist()) == _plain(rows), (
                    f"PyIceberg reads other rows of {environment}"
                )
                view = "q.m" if environment == "prod" else f"q__{environment}.m"
                catalog = workspace.settings.catalog
                _, seen = workspace.engine().query(f"SELECT * FROM {catalog}.{view} ORDER BY id, d")
                assert seen == asked.rows, f"the view of {environment} shows other rows"

    def _check_changes(self, environment: str) -> None:
        """Check that the changes between versions lead from the rows of one to those of another."""
        versions = list(self.seen[environment].items())
        with Workspace.open(self.folder.root) as workspace:
            for (since, before), (until, after) in pairwise(versions):
                try:
                    found = workspace.changes.read(environment, "q.m", since=since, until=until)
                except VdeError as error:
                    self.log.append(f"no changes from {since} to {until}: {error.message}")
                    self.counts["no changes"] += 1
                    continue
                names = [name for name, _ in found.changes.columns][5:]
                gone, come = (
                    Counter(_texts(row[5:]) for row in found.rows if row[0] in kinds)
                    for kinds in (("delete", "update_before"), ("insert", "update_after"))
                )
                copy = _migrated(before, found.changes.events, names)
                case = f"changes of {environment} from {since} to {until} {found.changes.method}"
                assert gone <= copy, case
                assert copy - gone + come == after[1], case
                self.counts["changes"] += len(found.rows)

    def _check(self, environment: str, shown: Definition, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            made_by = self.definitions[row["made_by"]]
            for column, own in shown.fields.items():
                struct = _inner(column, row[column])
                if struct is None:
                    assert column in ("st", "deep"), (environment, column, row)
                    assert row["id"] % 3 == 0, (environment, column, row)
                    continue
                assert sorted(struct) == sorted(name for name, _ in own), (environment, column, row)
                for name, kind in own:
                    right = made_by.value(name, kind, row["id"])
                    filled = (name, kind) in made_by.fields[column]
                    may_be_null = not filled or not self._is_kept(column, name, kind)
                    if made_by is shown and filled:
                        may_be_null = False
                    allowed = [right] * filled + [None] * may_be_null
                    assert struct[name] in allowed, (environment, column, name, kind, row, shown)

    def _is_kept(self, column: str, name: str, kind: str) -> bool:
        """Say whether all definitions have a field, so that it never was another one."""
        return all((name, kind) in one.fields[column] for one in self.definitions)


def _inner(column: str, value: Any) -> dict[str, Any] | None:
    """Return the struct whose fields change."""
    if column == "li":
        value, last = value
        assert last is None
    if column == "ma":
        value = value["k"]
    if column == "deep":
        value = value["i"]
    if column == "lima":
        ((value,),) = ([one["k"]["a"] for one in value],)
        (value,) = value
    found: dict[str, Any] | None = value
    return found


def _texts(row: Sequence[Any]) -> tuple[str, ...]:
    return tuple(_plain([{"value": value}]) for value in row)


def _migrated(
    before: tuple[list[str], Counter[tuple[str, ...]]],
    events: Sequence[ColumnEvent],
    now: list[str],
) -> Counter[tuple[str, ...]]:
    """Return rows with the columns that a reader has after the events."""
    names, rows = before
    assert not any(one.what == "renamed" for one in events)
    lost = {one.column for one in events if one.what in ("removed", "added")}
    nothing = _plain([{"value": None}])
    found: Counter[tuple[str, ...]] = Counter()
    for row, number in rows.items():
        values = dict(zip(names, row, strict=True))
        found[tuple(nothing if name in lost else values[name] for name in now)] += number
    return found


def _plain(rows: list[dict[str, Any]]) -> str:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(one) for key, one in sorted(value.items())}
        if isinstance(value, list):
            pairs = value and all(isinstance(one, tuple) for one in value)
            return plain(dict(value)) if pairs else [plain(one) for one in value]
        return value

    return str([plain(row) for row in rows])


KINDS = (
    "INCREMENTAL_BY_TIME_RANGE (time_column d, forward_only true)",
    "INCREMENTAL_BY_UNIQUE_KEY (unique_key id, forward_only true)",
)


def play(root: Path, seed: int, steps: int) -> Counter[str]:
    """Play one history in an empty folder; return what happened.

    Raises:
        AssertionError: An environment shows other rows than it must; the message has the history.
    """
    settings = "dev_only" if seed % 4 == 3 else "full"
    folder = ProjectFolder(
        root, {"pyproject.toml": f'[tool.vde]\nvirtual_environment_mode = "{settings}"\n'}
    )
    history = History(folder, random.Random(seed), KINDS[seed % 5 == 4])
    try:
        history.play(steps)
    except Exception as error:
        lines = "\n".join(history.log)
        raise AssertionError(
            f"seed {seed}, {settings}, {history.kind}:\n{lines}\n{error}"
        ) from error
    return history.counts
