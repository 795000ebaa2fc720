"""What an environment shows of a model, for whoever names both."""

from __future__ import annotations

from vde_dagster.base.names import ModelName
from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import UsageError
from vde_dagster.execution.make_plans import no_environment
from vde_dagster.planning.environment import Entry, Environment
from vde_dagster.state import StateStore


def published_entry(
    store: StateStore, environment: str, name: ModelName
) -> tuple[Environment, Entry]:
    """Return an environment as it was published, and a model's entry in it.

    Raises:
        UsageError: There is no such environment, or it shows no such model.
    """
    known = store.environments.get(environment)
    if known is None:
        raise no_environment(store, environment)
    entry = known.entries.get(name)
    if entry is None:
        raise UsageError(
            f"environment '{environment}' shows no model '{name}'",
            hint=suggest(str(name), [str(one) for one in known.entries], "models"),
        )
    return known, entry
