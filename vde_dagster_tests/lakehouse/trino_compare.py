"""What a real Trino reads of a project, beside what Spark reads of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from vde_dagster.base.json_values import json_value
from vde_dagster.base.names import ModelName, quote
from vde_dagster.execution.published_version import published_version
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.environments.environment import ViewNames
from vde_dagster_tests.lakehouse.trino_project import SPARK_ONLY, TRINO_CATALOG
from vde_dagster_tests.lakehouse.trino_server import TrinoError, TrinoServer
from vde_dagster_tests.lakehouse.trino_values import trino_json

Rows = tuple[str, ...]
"""A view's column names, then its rows, sorted; all as JSON."""
Place = tuple[str, str, str]
"""A catalog's name in Trino, a schema, and a table or view."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Args:
        step: What had just happened.
        environment: The environment.
        subject: The view, or what else.
        rows: How many rows were compared, or None.
        ok: Whether all is well.
        verdict: What was found.
    """

    step: str
    environment: str
    subject: str
    rows: int | None
    ok: bool
    verdict: str

    def __str__(self) -> str:
        rows = "" if self.rows is None else str(self.rows)
        mark = "ok" if self.ok else "WRONG"
        return (
            f"{self.step:<16} {self.environment:<13} {self.subject:<26} {rows:>3}  "
            f"{mark:<5}  {self.verdict}"
        )


@dataclass(frozen=True, slots=True)
class Readers:
    """Both engines on one project.

    Args:
        workspace: The project; queries it with Spark.
        trino: The server.
        read: What Trino read last, by environment and model.
    """

    workspace: Workspace
    trino: TrinoServer
    read: dict[str, dict[ModelName, Rows]] = field(default_factory=dict)

    def compare(self, step: str, environment: str, served: str | None = None) -> Iterator[Check]:
        """Read every model of an environment with both.

        Args:
            step: What had just happened.
            environment: The environment, or a version of it: `prod@1`.
            served: Trino's catalog of it that is behind `vde serve`; by default Trino reads the
                environment's views.
        """
        models = self._models(environment)
        where = served or environment
        self.read[where] = {}
        places = {model: self._place(model, environment, served) for model in models}
        for model, place in sorted(places.items()):
            yield self._compare(step, environment, where, model, place)
        yield self._listed(step, where, set(places.values()))

    def _models(self, environment: str) -> list[ModelName]:
        store = self.workspace.store
        found = published_version(store, environment) or store.environments.get(environment)
        assert found is not None
        snapshots = store.snapshots.load(entry.snapshot_id for entry in found.entries.values())
        return [one.name for one in snapshots.values() if one.model.kind.is_shown]

    def _place(self, model: ModelName, environment: str, served: str | None) -> Place:
        if served is not None:
            return (served, model.namespace, model.name)
        ref = ViewNames(environment).ref(model)
        return (TRINO_CATALOG, ref.namespace, ref.name)

    def _compare(
        self, step: str, environment: str, where: str, model: ModelName, place: Place
    ) -> Check:
        spark = self._with_spark(environment, model)
        refused = str(model) in SPARK_ONLY
        try:
            trino = self._with_trino(place)
        except TrinoError as error:
            ok = refused and "unsupported dialect" in str(error)
            verdict = f"Trino: {error}"
        else:
            self.read[where][model] = trino
            ok = trino == spark and not refused
            verdict = "same" if trino == spark else f"Spark {spark}, Trino {trino}"
        return Check(step, where, str(model), len(spark) - 1, ok, verdict)

    def _with_spark(self, environment: str, model: ModelName) -> Rows:
        name = f"{quote(model.namespace)}.{quote(model.name)}"
        answer = self.workspace.query(environment, f"SELECT * FROM {name}")
        names = [column for column, _ in answer.columns]
        return _rows(names, [[json_value(value) for value in row] for row in answer.rows])

    def _with_trino(self, place: Place) -> Rows:
        answer = self.trino.query(f"SELECT * FROM {'.'.join(map(_trino, place))}")
        names = [column["name"] for column in answer.columns]
        types = [column["typeSignature"] for column in answer.columns]
        return _rows(names, [list(map(trino_json, row, types)) for row in answer.rows])

    def _listed(self, step: str, where: str, wanted: set[Place]) -> Check:
        found = {
            (catalog, schema, name)
            for catalog, schema in {place[:2] for place in wanted}
            for (name,) in self.trino.query(
                f"SHOW TABLES FROM {_trino(catalog)}.{_trino(schema)}"
            ).rows
        }
        ok = found == wanted
        verdict = "same" if ok else f"Trino lists {sorted(found)}"
        return Check(step, where, "(list of the models)", len(wanted), ok, verdict)


def _rows(names: list[str], rows: list[list[Any]]) -> Rows:
    """Write an answer as the other engine's is written; Trino has all names in lower case."""
    header = json.dumps([name.lower() for name in names], ensure_ascii=False)
    return (header, *sorted(json.dumps(row, ensure_ascii=False) for row in rows))


def _trino(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
