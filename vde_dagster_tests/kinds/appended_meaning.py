"""The meaning of APPENDED for plans."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.api.kinds import Input, Meaning, SemanticVersion
from vde_dagster.api.models import Model
from vde_dagster.api.values import ModelName, digest
from vde_dagster_tests.kinds.appended import Appended


class AppendedMeaning(Meaning):
    """The rows of a query that treats each row of a parent alone."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the parents."""
        return digest("appended", version.rows, *sorted(Appended.from_model(model).parents))

    def inputs(self, model: Model) -> Mapping[ModelName, Input]:
        """Return the parents as read by commits."""
        parents = map(ModelName.parse, Appended.from_model(model).parents)
        return {**super().inputs(model), **dict.fromkeys(parents, Input.BY_COMMITS)}

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return no keys: a key that is unique in each commit may come again."""
        return ()
