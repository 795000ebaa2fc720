"""The search near rules: its examples reach every rule, and rules that are alive stay so."""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from vde_dagster.errors import VdeError
from vde_dagster.semantics import simplify
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.session import UNKNOWN, Session
from vde_dagster_tests.corpora import each_of
from vde_dagster_tests.semantics.variants import (
    EXAMPLES,
    ONE_VERSION,
    PARENTS,
    SCHEMA,
    Example,
    Variants,
)

ROOT = Path(simplify.__file__).parent
ZONED = Session(has_zoned_timestamps=True)
SEED = 48
VARIANTS = 100


@each_of("pair", ONE_VERSION)
def test_pairs_of_one_version_have_one(pair: Example) -> None:
    one, other = (
        analyze(query, SCHEMA, parents=PARENTS, session=ZONED).version for query in pair.queries()
    )

    assert one.opaque is None
    assert one.rows == other.rows
    assert [*one.columns.values()] == [*other.columns.values()]


def test_the_search_reaches_every_line_of_the_rules() -> None:
    """A new rule needs an example in a fixture of `variants.py`, near which Spark is asked."""
    reached = Reached()
    made = Variants(random.Random(SEED))
    pairs = [*EXAMPLES, *(made.pair() for _ in range(VARIANTS))]
    with reached:
        for pair in pairs:
            for query in pair.queries():
                for session in (ZONED, UNKNOWN) if "TIMESTAMP" in query else (ZONED,):
                    _read(query, session)

    missed = [
        f"{path.name}:{numbers[0]}: {text}"
        for path in sorted(ROOT.glob("*.py"))
        for numbers, text in _statements(path)
        if reached.lines.get(str(path), set()).isdisjoint(numbers)
        and text.partition("  #")[0] not in GIVING_UP
        and f"{path.name}: {text}" not in RARE
    ]
    assert not missed, "no example of `rule_pairs.yaml` reaches\n" + "\n".join(missed)


def test_variants_are_near_rules() -> None:
    """A third of them have one version by a rule, so that asking Spark says something."""
    made = Variants(random.Random(SEED))
    alike = 0
    for _ in range(300):
        one, other = made.pair().queries()
        versions = [_read(query, ZONED) for query in (one, other)]
        alike += one != other and None not in versions and versions[0] == versions[1]

    assert alike > 60


def _read(query: str, session: Session) -> tuple[str, ...] | None:
    try:
        version = analyze(query, SCHEMA, parents=PARENTS, session=session).version
    except VdeError:
        return None
    return (version.rows, *version.columns.values())


class Reached:
    """Lines of the rules that ran, by the paths of their files."""

    def __init__(self) -> None:
        self.lines: dict[str, set[int]] = {}

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._call)

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(str(ROOT)) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return self._line


def _statements(path: Path) -> Iterator[tuple[range, str]]:
    """The statements in functions of a file: lines, without those of inner ones, and text."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    functions = (ast.FunctionDef, ast.Lambda)
    inner = [
        statement
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.stmt) and not isinstance(statement, functions)
    ]
    for statement in {one.lineno: one for one in inner}.values():
        if isinstance(statement, (ast.Expr, ast.AnnAssign)) and not isinstance(
            statement.value, ast.expr
        ):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        body = getattr(statement, "body", None)
        end = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
        yield (
            range(statement.lineno, max(end, statement.lineno) + 1),
            lines[statement.lineno - 1].strip(),
        )


GIVING_UP = frozenset(
    {"break", "continue", "return", *(f"return {n}" for n in ("node", "None"))}
) | {
    *("return False", "return conditions", "return []"),
}
"""Statements after which nothing is rewritten."""
RARE = frozenset(
    {
        # A CTE that is read more than 64 times is one group of several sources.
        "parts.py: self.shared.add(group)",
        "parts.py: self.frozen.add(source)",
        # What a window is computed over is frozen, which is asked before.
        "nested_queries.py: return True",
    }
)
"""Statements that no short query reaches."""
