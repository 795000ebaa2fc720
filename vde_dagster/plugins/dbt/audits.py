"""dbt's tests as audits: their own compiled SQL, over the rows that are to be published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import SourceLocation
from vde_dagster.plugins.dbt.manifest import Node
from vde_dagster.project.model import Audit

Render = Callable[[Node, str], tuple[str, dict[ModelName, SourceLocation]]]
"""From a test, and a form with `{}` for its query, to Spark SQL and the tables that it reads."""

_ANY = ("!= 0", "!=0", "> 0", ">0", "<> 0")
_THIS = "@this_model"


def audits_of(
    tests: Sequence[Node], render: Render
) -> tuple[tuple[Audit, ...], dict[ModelName, SourceLocation]]:
    """Return a model's audits, and the tables that they read beside it."""
    audits: dict[str, Audit] = {}
    reads: dict[ModelName, SourceLocation] = {}
    never_null = {_plain(test, "not_null") for test in tests if not _conditions(test)}
    for test in tests:
        column = _plain(test, "unique")
        for suffix, form, blocking in _forms(test):
            if column and column in never_null and not _conditions(test) and form == "{}":
                # NULLs are bad rows of another test, and without its condition this proves a key.
                query, read = _unique(column), dict[ModelName, SourceLocation]()
            else:
                query, read = render(test, form)
            audit = Audit(test.name + suffix, (), query, blocking, tuple(sorted(read)))
            audits.setdefault(audit.label, audit)
            reads |= read
    return tuple(audits.values()), reads


def not_null(columns: Sequence[str]) -> Iterator[Audit]:
    """Yield audits of a contract's columns that are never NULL."""
    for column in columns:
        query = f"SELECT * FROM {_THIS} WHERE {quote(column)} IS NULL"
        yield Audit("not_null", (("columns", column),), query)


def _unique(column: str) -> str:
    name = quote(column)
    return f"SELECT {name}, COUNT(*) AS n_records FROM {_THIS} GROUP BY {name} HAVING COUNT(*) > 1"


def _plain(test: Node, name: str) -> str | None:
    """Return the column of one of dbt's own generic tests of a name, or None."""
    own = test.test_metadata is not None and test.test_metadata.name == name
    if not own or f"macro.dbt.test_{name}" not in test.depends_on.macros:
        return None
    column = (test.column_name or "").strip('`"')
    return column if column.isidentifier() else None


def _conditions(test: Node) -> bool:
    """Say whether a test looks at some of the rows, or lets some failures pass."""
    config = test.config
    thresholds = (str(config.get(key) or _ANY[0]) for key in ("warn_if", "error_if"))
    return bool(config.get("where")) or any(one not in _ANY for one in thresholds)


def _forms(test: Node) -> Iterator[tuple[str, str, bool]]:
    """Yield the audits that a test is: an addition to its name, a form, and whether it blocks."""
    config = test.config
    inner = (
        "{}"
        if not config.get("limit")
        else f"SELECT * FROM ({{}}) AS dbt_rows LIMIT {int(config['limit'])}"
    )
    count = str(config.get("fail_calc") or "count(*)")
    warn, error = (str(config.get(key) or _ANY[0]).strip() for key in ("warn_if", "error_if"))
    fails = str(config.get("severity") or "error").lower() == "error"

    def form(threshold: str) -> str:
        if threshold in _ANY and count == "count(*)":
            return inner
        return (
            f"SELECT * FROM ({inner}) AS dbt_failures "
            f"WHERE (SELECT {count} FROM ({inner}) AS dbt_internal_test) {threshold}"
        )

    if fails:
        yield "", form(error), True
        if warn != error:
            yield "_warning", form(warn), False
    else:
        yield "", form(warn), False
