"""Macros of one statement expanded, be it SQL or a block of Jinja."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.variables import STAGE
from vde_dagster.sql.expanded import Expanded, ExpandedSource

if TYPE_CHECKING:
    from vde_dagster.project.macros.jinja import Templates


def render_block(expander: Expander, start: int, end: int) -> list[Expanded]:
    """Render a block of Jinja, and expand the macros of the SQL that it makes.

    Args:
        expander: Knows the file, the dialect, macros and variables.
        start: Offset of the block's body.

    Returns:
        The statements that it makes, which may be none.

    Raises:
        ProjectError: The template or its SQL is wrong; points at the line.
    """
    from vde_dagster.project.macros.jinja import with_variables

    text = _templates(expander).render(expander.source, start, end)
    text = with_variables(text, _source(expander, text), expander.scope.dialect)
    inner = Expander(_source(expander, text), expander.scope)
    return [one.through(text) for one in inner.statements(0, len(text.text))]


def _source(expander: Expander, text: Expanded) -> ExpandedSource:
    return ExpandedSource(expander.source.path, text.text, expander.source, text)


def _templates(expander: Expander) -> Templates:
    """Return the renderer of the file's templates, with SQLMesh's names."""
    from vde_dagster.project.macros.evaluator import MacroEvaluator
    from vde_dagster.project.macros.jinja import VALUES, Templates, TimeValue

    scope = expander.scope
    evaluator = MacroEvaluator(expander)
    names: dict[str, Any] = {name: TimeValue(name) for name in VALUES}
    names |= {name: partial(macro, evaluator) for name, macro in scope.macros.items()}
    names[STAGE] = scope.stage
    names |= scope.environment
    names["gateway"] = lambda: scope.settings.get("gateway")

    def var(name: str, *default: Any, **named: Any) -> Any:
        for value in (scope.settings.get(name.lower()), *default, named.get("default")):
            if value is not None:
                return value
        given = default or "default" in named
        return None if given else templates.missing(f"var {name}")

    names["var"] = names["blueprint_var"] = var
    templates = Templates(scope.templates, names, _printer(scope.dialect))
    return templates


def _printer(dialect: str) -> Callable[[Any], Any]:
    """Print expressions, which macros in Python return, as SQL."""

    def printed(value: Any) -> Any:
        from sqlglot import exp

        return value.sql(dialect=dialect) if isinstance(value, exp.Expr) else value

    return printed
