"""Every documented example of Spark's functions, as written and through the package.

Through the package is: as the query of a model, loaded with its project and rendered as it would
run. Where the text that comes out is another one, Spark's analysed plans are compared, and where
they are not the same, so are results. Each example is tried by itself and in a query that also
reads a model, so that the package replaces a table and has to write the query anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.environments.environment import Entry
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.rendering.render import render_query
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Model
from vde_dagster.semantics import spark_functions
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.spark.outcomes import FAILURES
from vde_dagster_tests.spark.registry import analysed, built_ins

CATALOG = "lakehouse"
ONE_ROW = ModelName("db", "one_row")
BESIDE = "SELECT t.* FROM ({query}) AS t CROSS JOIN {one_row}"

NO_QUERIES = ("SET ",)
"""How examples begin that are commands."""

NOT_STEADY: dict[str, str] = {}
"""Examples that give another result each time for another reason than the function's kind."""


@dataclass(frozen=True)
class Example:
    """One documented example.

    Args:
        function: Whose documentation it stands in.
        text: The query.
    """

    function: str
    text: str


@dataclass(frozen=True)
class Difference:
    """An example that comes out otherwise through the package.

    Args:
        function: Whose documentation it stands in.
        example: The query as written.
        form: ``alone``, or ``beside a model``.
        rendered: What the package would run, or the message with which it refuses.
        expected: Spark's answer to the query as written.
        got: Spark's answer to what is rendered.
    """

    function: str
    example: str
    form: str
    rendered: str
    expected: str
    got: str

    def __str__(self) -> str:
        return (
            f"{self.function} ({self.form})\n  example:  {self.example}\n"
            f"  rendered: {self.rendered}\n  expected: {self.expected}\n  got:      {self.got}"
        )


@dataclass(frozen=True)
class Report:
    """What came of all examples.

    Args:
        functions: How many functions have an example that is a query.
        examples: How many examples there are, each one counted once.
        failing: Those that Spark itself cannot analyse, with the beginning of its message.
        unsteady: Those whose values are not compared, as they may differ each time.
        same_text: How many forms the package leaves as they are, word by word.
        same_plan: How many forms have another text and the same plan.
        same_result: How many forms have another plan and the same result.
        differences: All others.
    """

    functions: int
    examples: int
    failing: dict[str, str]
    unsteady: tuple[str, ...]
    same_text: int
    same_plan: int
    same_result: int
    differences: tuple[Difference, ...]

    def figures(self) -> str:
        """The numbers in one line."""
        return (
            f"{self.functions} functions, {self.examples} examples ({len(self.failing)} that fail,"
            f" {len(self.unsteady)} not steady); same text {self.same_text}, same plan"
            f" {self.same_plan}, same result {self.same_result},"
            f" differences {len(self.differences)}"
        )


def documented_examples(session: Any) -> list[Example]:
    """List the documented queries, each one once."""
    found: dict[str, Example] = {}
    for name, function in built_ins(session).items():
        for text in function.examples:
            if not text.upper().startswith(NO_QUERIES):
                found.setdefault(text, Example(name, text))
    return list(found.values())


def run_examples(session: Any, root: Path, examples: Sequence[Example]) -> Report:
    """Run examples as written and through the package.

    Args:
        session: A Spark session.
        root: An empty folder, for the project.
        examples: The examples.
    """
    failing: dict[str, str] = {}
    unsteady: list[str] = []
    differences: list[Difference] = []
    counts = {"same text": 0, "same plan": 0, "same result": 0}
    rendered = render_examples(root, [example.text for example in examples])
    for example in examples:
        beside = BESIDE.format(query=example.text, one_row="(SELECT 1 AS one) AS one_row")
        for form, written in (("alone", example.text), ("beside a model", beside)):
            try:
                plan = analysed(session, written)
            except FAILURES as error:
                failing[example.text] = str(error).splitlines()[0][:100]
                continue
            steady = is_steady(example.text)
            if not steady and form == "alone":
                unsteady.append(example.text)
            text, message = rendered[form, example.text]
            if text is None:
                differences.append(_refused(example, form, message))
            elif text == written:
                counts["same text"] += 1
            elif _same_plan(session, plan, text):
                counts["same plan"] += 1
            else:
                expected, got = (answer(session, q, values=steady) for q in (written, text))
                if expected == got:
                    counts["same result"] += 1
                else:
                    differences.append(
                        Difference(example.function, example.text, form, text, expected, got)
                    )
    return Report(
        functions=len({example.function for example in examples}),
        examples=len(examples),
        failing=failing,
        unsteady=tuple(unsteady),
        same_text=counts["same text"],
        same_plan=counts["same plan"],
        same_result=counts["same result"],
        differences=tuple(differences),
    )


def render_examples(
    root: Path, queries: Sequence[str]
) -> dict[tuple[str, str], tuple[str | None, str]]:
    """Make a project of queries and render its models.

    Returns:
        By form and query: the text that would run, or None and why there is none.
    """
    folder = ProjectFolder(root)
    folder.write("pyproject.toml", '[tool.vde]\nname = "examples"\n')
    folder.write("models/db/one_row.sql", f"MODEL (name {ONE_ROW}, kind VIEW);\nSELECT 1 AS one")
    names: dict[tuple[str, str], ModelName] = {}
    for i, query in enumerate(queries):
        beside = BESIDE.format(query=query, one_row=ONE_ROW)
        for form, text in (("alone", query), ("beside a model", beside)):
            name = ModelName("examples", f"{form[0]}{i:04}")
            names[form, query] = name
            path = root / f"models/examples/{name.name}.sql"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"MODEL (name {name}, kind FULL);\n{text}\n", encoding="utf-8")
    project = load_project(root, strict=False, use_cache=False)
    problems = {
        Path(problem.location.path).stem: str(problem)
        for problem in project.problems
        if problem.location is not None
    }
    resolver = _resolver(project.models)
    found: dict[tuple[str, str], tuple[str | None, str]] = {}
    for key, name in names.items():
        model = project.models.get(name)
        if model is None:
            found[key] = (None, problems.get(name.name, "it is not loaded"))
            continue
        try:
            found[key] = (render_query(model, resolver, CATALOG), "")
        except (VdeError, ValueError) as error:
            found[key] = (None, str(error))
    return found


def _resolver(models: dict[ModelName, Model]) -> Resolver:
    snapshots = build_snapshots({ONE_ROW: models[ONE_ROW]}, lambda name: None)
    snapshot = snapshots[ONE_ROW]
    entries = {ONE_ROW: Entry(ONE_ROW, snapshot.id, None)}
    return Resolver("dev", entries, {snapshot.id: snapshot}, {})


def is_steady(query: str) -> bool:
    """Whether a query gives the same result each time, by the kinds of what it calls."""
    words = set(re.findall(r"\w+", re.sub(r"'(?:[^'\\]|\\.)*'", "''", query.lower())))
    called = set(re.findall(r"\w+(?=\()", query.lower()))
    return (
        query not in NOT_STEADY
        and not called & (spark_functions.UNSTEADY | spark_functions.SESSION)
        and not words & spark_functions.WITHOUT_PARENTHESES
        and not re.search(r"unix_timestamp\(\s*\)", query.lower())
    )


def answer(session: Any, query: str, *, values: bool = True) -> str:
    """Spark's answer to a query: types and rows, or the class of its error.

    Args:
        session: A Spark session.
        query: The query.
        values: Whether to compare values; otherwise the types and the number of rows.
    """
    try:
        frame = session.sql(query)
        schema = frame._jdf.schema()
        kinds = [str(schema.apply(i).dataType().json()) for i in range(schema.size())]
        names = [f"c{i}" for i in range(len(kinds))]
        # As text, as not every type has a form in Python; bytes need not be valid text.
        texts = [f"CAST(CAST({name} AS STRING) AS BINARY) AS {name}" for name in names]
        rows = frame.toDF(*names).selectExpr(*texts).collect()
    except FAILURES as error:
        match = re.match(r"\[([A-Z_.]+)\]", str(error))
        return f"error {match[1] if match else ' '.join(str(error).split())[:200]}"
    if not values:
        return f"{kinds} {len(rows)} rows"
    # Spark gives no order but by ORDER BY, yet the same plan on the same rows keeps one.
    shown = [tuple(None if v is None else bytes(v) for v in row) for row in rows]
    return f"{json.dumps(kinds)} {shown}"


def _same_plan(session: Any, plan: Any, text: str) -> bool:
    try:
        return bool(plan.sameResult(analysed(session, text)))
    except FAILURES:
        return False


def _refused(example: Example, form: str, message: str) -> Difference:
    return Difference(example.function, example.text, form, "-", "a query", message[:300])
