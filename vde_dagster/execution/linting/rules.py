"""Linter rules: base class, built-in rules, and models as rules read them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from vde_dagster.base.names import ModelName, quote_if_needed
from vde_dagster.errors import Fix, Replacement, SourceLocation
from vde_dagster.planning.checks.diagnostics import place_in_header
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.python.annotations import Context, Model
from vde_dagster.project.settings import Settings
from vde_dagster.semantics.versions.version import UNKNOWN_TABLE
from vde_dagster.sql.scanner import SourceText, Token

if TYPE_CHECKING:
    from sqlglot import exp


class Violation(NamedTuple):
    """Violation of a rule, with a one-sentence message."""

    message: str
    location: SourceLocation
    fixes: tuple[Fix, ...] = ()


class RuleViolation:
    """Violation of a rule, with fixes.

    Args:
        violation_range: Object with `start` and `end`, each with `line` and `character` from 0. The
            default is the beginning of the model's file.
        fixes: Objects with a `title` and `edits`. Each edit has a `range`, the `new_text` and
            optionally a `path`.
    """

    def __init__(
        self, rule: Rule, violation_msg: str, violation_range: Any = None, fixes: Any = None
    ) -> None:
        self.rule = rule
        self.violation_msg = violation_msg
        self.violation_range = violation_range
        self.fixes = fixes or []

    def __repr__(self) -> str:
        return f"{self.rule.name}: {self.violation_msg}"


class Rule(ABC):
    """Rule that every model is checked with.

    The rule's name is the class's name in lower case.

    >>> class NoMissingOwner(Rule):
    ...     'Models have owners.'
    ...     def check_model(self, model):
    ...         return None if model.owner else self.violation()
    >>> from types import SimpleNamespace
    >>> NoMissingOwner(None).check_model(SimpleNamespace(owner=None))
    nomissingowner: Models have owners.

    Args:
        context: The project around the model: `models`, `get_model(name)`, `models_with_tests`.
    """

    name: ClassVar[str] = "rule"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = cls.__name__.lower()

    def __init__(self, context: Any) -> None:
        self.context = context

    @abstractmethod
    def check_model(self, model: Any) -> RuleViolation | Sequence[RuleViolation] | None:
        """Check one model, and return its violations."""

    @property
    def summary(self) -> str:
        """The rule's summary: its docstring."""
        return " ".join((self.__doc__ or self.name).split())

    def violation(
        self, violation_msg: str | None = None, violation_range: Any = None, fixes: Any = None
    ) -> RuleViolation:
        """Build a violation of this rule. The default message is the rule's summary."""
        return RuleViolation(self, violation_msg or self.summary, violation_range, fixes)


class KindView:
    """Kind of a model, as rules read it: `name`, `is_full`, `time_column` …"""

    def __init__(self, snapshot: Snapshot) -> None:
        self._kind = snapshot.model.kind
        self.name = self._kind.name
        self.is_symbolic = self._kind.is_external or not self._kind.is_shown
        self.is_incremental = self.name.startswith("INCREMENTAL")
        self.is_materialized = snapshot.has_table

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name.startswith("is_"):
            return name[3:].upper() == self.name
        return getattr(self._kind, name)


class ModelView(Model):
    """Model as rules read it, with SQLMesh's attribute names in addition to our own.

    Args:
        parents: Snapshots of the model's parents, for built-in rules.
        tested: Whether the model has a unit test, for built-in rules.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        parents: Mapping[ModelName, Snapshot] | None = None,
        *,
        tested: bool = False,
    ) -> None:
        self.snapshot = snapshot
        self.parents = parents or {}
        self.tested = tested
        model = snapshot.model
        self.name = str(model.name)
        self.fqn = str(model.name)
        self.view_name = model.name.name
        self.schema_name = model.name.namespace
        self.kind = KindView(snapshot)
        self.depends_on = {str(name) for name in model.depends_on}
        self.tags = list(model.tags)
        self.audits = [(audit.name, dict(audit.arguments)) for audit in model.audits]
        self.columns = {column.name: column.type for column in snapshot.columns}
        self.column_descriptions = {
            column.name: column.description for column in snapshot.columns if column.description
        }
        self.dialect = "spark"
        self.is_sql = model.query is not None
        self.is_python = model.python is not None
        self.is_seed = not (self.is_sql or self.is_python)
        self._path = self.path = settings.root / Path(model.location.path)

    @cached_property
    def query(self) -> exp.Expr | None:
        from vde_dagster.sql.reading import parse_plain

        query = self.snapshot.model.query
        return None if query is None else parse_plain(query)

    @cached_property
    def tree(self) -> exp.Expr | None:
        """The query as SQLGlot's tree, with functions as they are written."""
        from vde_dagster.sql.reading import read_query

        query = self.snapshot.model.query
        return None if query is None else read_query(query).tree

    @property
    def undeclared(self) -> tuple[ModelName, ...]:
        """Tables that the model reads and that the project neither builds nor declares."""
        parents = self.parents.items()
        return tuple(n for n, p in parents if p.model.kind.is_external and not p.model.source)

    def violation(self, message: str, *words: str) -> Violation:
        """Build a violation at the first of `words` in the header, or at the model's start."""
        model = self.snapshot.model
        where = place_in_header(model, *words) if words else model.location
        return Violation(f"{model.name} {message}", where)

    def render_query(self, **given: Any) -> exp.Expr | None:
        """Return the model's query as SQLGlot's tree, as SQLMesh's method of this name does."""
        return self.query

    @cached_property
    def columns_to_types(self) -> dict[str, exp.DataType]:
        from sqlglot import exp

        return {
            name: exp.DataType.build(type_ or "UNKNOWN", dialect="spark")
            for name, type_ in self.columns.items()
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.snapshot.model, name)


class ContextView(Context):
    """The project as rules read it. Results of rules that use the project are not cached."""

    def __init__(
        self,
        settings: Settings,
        snapshots: Mapping[ModelName, Snapshot],
        tested: Collection[ModelName],
    ) -> None:
        self.uses = 0
        self.path = settings.root
        self._settings = settings
        self._snapshots = snapshots
        self._tested = tested

    @property
    def models(self) -> dict[str, ModelView]:
        self.uses += 1
        return {
            str(name): ModelView(snapshot, self._settings)
            for name, snapshot in self._snapshots.items()
        }

    @property
    def models_with_tests(self) -> set[str]:
        self.uses += 1
        return {str(name) for name in self._tested}

    def get_model(self, name: str, raise_if_missing: bool = False) -> ModelView | None:
        self.uses += 1
        text = str(name).replace('"', "").replace("`", "").lower()
        for key, snapshot in self._snapshots.items():
            if str(key) == ".".join(text.split(".")[-2:]):
                return ModelView(snapshot, self._settings)
        if raise_if_missing:
            raise KeyError(name)
        return None


def convert_violation(violation: RuleViolation, message: str, model: Any) -> Violation:
    """Convert a violation of a project's own rule. Only fixes of the model's own file are kept."""
    path, lines = model.location.path, SourceText(model.location.path, model.source)

    def place(position: Any) -> SourceLocation:
        return SourceLocation(path, position.line + 1, position.character + 1)

    def edit(one: Any) -> Replacement:
        start, end = place(one.range.start), place(one.range.end)
        old = model.source[lines.stretch(start)[0] : lines.stretch(end)[0]]
        return Replacement(old, one.new_text, start)

    fixes = tuple(
        Fix(one.title, tuple(map(edit, one.edits)))
        for one in violation.fixes
        if not getattr(one, "create_files", ())
        and all(Path(own.path or path).as_posix().endswith(path.as_posix()) for own in one.edits)
    )
    where = violation.violation_range
    return Violation(message, place(where.start) if where else model.location, fixes)


LINT_VERSION = "2"
"""Increased whenever the findings of a built-in rule change, to invalidate cached results."""


def outermost_columns(tree: exp.Expr | None) -> list[exp.Expr]:
    """Return the output columns of the outermost SELECT of a query, or of all sides of a UNION."""
    from sqlglot import exp

    waiting, found = [tree], []
    while waiting:
        query = waiting.pop()
        if isinstance(query, exp.SetOperation):
            waiting += [query.this, query.expression]
        elif isinstance(query, exp.Subquery):
            waiting.append(query.this)
        elif isinstance(query, exp.Select):
            found += query.expressions
    return found


def first_select_columns(tree: exp.Expr | None) -> list[exp.Expr]:
    from sqlglot import exp

    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return list(tree.expressions) if isinstance(tree, exp.Select) else []


_UNCLEAR = re.compile(r"may belong to|tables are called")


def ambiguousorinvalidcolumn(linted: ModelView) -> Iterator[Violation]:
    """Find columns that may belong to several tables."""
    why = linted.snapshot.version.opaque or ""
    if _UNCLEAR.search(why):
        yield linted.violation(f"has a column that may be ambiguous or missing: {why}")


def cronintervalalignment(linted: ModelView) -> Iterator[Violation]:
    """Find parents whose interval unit is longer than the model's own unit."""
    own = linted.snapshot.cadence.unit
    for name, parent in linted.parents.items():
        timed = parent.model.kind.by_intervals
        if timed and parent.cadence.unit.value > own.value:
            yield linted.violation(
                f"has intervals of a {_spell_unit(own.name)}, but reads {name}, which has "
                f"intervals of a {_spell_unit(parent.cadence.unit.name)}",
                "cron",
            )


def _spell_unit(unit: str) -> str:
    return unit.lower().replace("_", " ")


def invalidselectstarexpansion(linted: ModelView) -> Iterator[Violation]:
    """Find a star over a table with unknown columns."""
    found = UNKNOWN_TABLE.search(linted.snapshot.version.opaque or "")
    if found:
        yield linted.violation(f"selects * from {found[1]}, whose columns are unknown")


def noambiguousprojections(linted: ModelView) -> Iterator[Violation]:
    """Find columns without a name, or with a duplicate name."""
    columns = [column for column in first_select_columns(linted.tree) if not column.is_star]
    names = [column.output_name.lower() for column in columns]
    for place, name in enumerate(names, start=1):
        if not name:
            yield linted.violation(f"has a column without a name, at position {place}")
    for name, count in Counter(filter(None, names)).items():
        if count > 1:
            yield linted.violation(f"selects {count} columns named '{name}'")


def nomissingaudits(linted: ModelView) -> Iterator[Violation]:
    """Find models without audits."""
    # Embedded models cannot have any.
    if linted.snapshot.model.kind.is_shown and not linted.snapshot.model.audits:
        yield linted.violation("has no audits")


def nomissingdescription(linted: ModelView) -> Iterator[Violation]:
    """Find models without a description."""
    if not linted.snapshot.model.description:
        yield linted.violation("has no description")


def nomissingexternalmodels(linted: ModelView) -> Iterator[Violation]:
    """Find undeclared tables that a model reads."""
    if linted.undeclared:
        names = ", ".join(map(str, linted.undeclared))
        yield linted.violation(
            f"reads tables that external_models.yaml does not declare: {names} "
            "(run: vde create-external-models)"
        )


def nomissinggrain(linted: ModelView) -> Iterator[Violation]:
    """Find models without a grain."""
    if linted.snapshot.model.kind.owns_table and not linted.snapshot.model.grains:
        yield linted.violation("has no grain")


def nomissingowner(linted: ModelView) -> Iterator[Violation]:
    """Find models without an owner."""
    if not linted.snapshot.model.owner:
        yield linted.violation("has no owner")


def nomissingunittest(linted: ModelView) -> Iterator[Violation]:
    """Find models without a unit test."""
    # Seeds have nothing to test.
    model = linted.snapshot.model
    if not linted.tested and (model.query is not None or model.python is not None):
        yield linted.violation("has no unit test")


def noselectstar(linted: ModelView) -> Iterator[Violation]:
    """Find a star among the outermost columns of a query."""
    if any(column.is_star for column in outermost_columns(linted.tree)):
        found = linted.violation("selects * instead of naming its columns")
        yield found._replace(fixes=tuple(_column_fix(linted)))


def _column_fix(linted: ModelView) -> Iterator[Fix]:
    model = linted.snapshot.model
    tokens = Token.split(model.query or "")
    stars = [at for at, token in enumerate(tokens) if token.text == "*"]
    columns = [quote_if_needed(column.name) for column in linted.snapshot.columns]
    selects = [at for at in stars if at and tokens[at - 1].is_word("SELECT", "DISTINCT")]
    first = next((at for at in selects if _bracket_depth(tokens[:at]) == 0), None)
    alone = len(outermost_columns(linted.tree)) == 1 and len(first_select_columns(linted.tree)) == 1
    if first is not None and alone and columns and tokens[first + 1].is_word("FROM"):
        place = model.place(tokens[first].start)
        yield Fix("Name the columns", (Replacement("*", ", ".join(columns), place),))


def _bracket_depth(tokens: Sequence[Token]) -> int:
    return sum({"(": 1, ")": -1}.get(token.text, 0) for token in tokens)


RULES: Mapping[str, Callable[[ModelView], Iterator[Violation]]] = {
    check.__name__: check
    for check in (
        ambiguousorinvalidcolumn,
        cronintervalalignment,
        invalidselectstarexpansion,
        noambiguousprojections,
        nomissingaudits,
        nomissingdescription,
        nomissingexternalmodels,
        nomissinggrain,
        nomissingowner,
        nomissingunittest,
        noselectstar,
    )
}
"""Built-in rules, by name."""
