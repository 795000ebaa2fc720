"""Finding a model, or a column of one, by what somebody typed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TypeVar

from vde_dagster.base.names import ModelName, split_identifier
from vde_dagster.base.suggestions import closest
from vde_dagster.errors import UsageError

T = TypeVar("T")


def find_model(models: Mapping[ModelName, T], text: str, default_namespace: str) -> ModelName:
    """Return the model of a name.

    Raises:
        UsageError: It is no name, or there is no such model.
    """
    name = ModelName.parse(text, default_namespace)
    if name not in models:
        raise no_model(name, models)
    return name


def model_and_column(
    models: Container[ModelName], text: str, default_namespace: str
) -> tuple[ModelName, str | None]:
    """Read `schema.model`, or `schema.model.column`; a model's name goes first.

    >>> model_and_column({ModelName("a", "b")}, "a.b.c", "default")
    (ModelName(namespace='a', name='b'), 'c')
    >>> model_and_column({ModelName("default", "b")}, "b.c", "default")
    (ModelName(namespace='default', name='b'), 'c')

    Raises:
        UsageError: It is neither.
    """
    parts = split_identifier(text)
    if len(parts) == 3:
        return ModelName(parts[0].lower(), parts[1].lower()), parts[2]
    name = ModelName.parse(text, default_namespace)
    if name not in models and len(parts) == 2:
        short = ModelName(default_namespace.lower(), parts[0].lower())
        if short in models:
            return short, parts[1]
    return name, None


def no_model(name: ModelName, models: Iterable[ModelName]) -> UsageError:
    """Return the error that says that there is no such model."""
    close = closest(str(name), map(str, models))
    hint = f"did you mean '{close}'?" if close else "list them with: vde info"
    return UsageError(f"there is no model '{name}'", hint=hint)
