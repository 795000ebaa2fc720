"""How plans compare versions of FIRST_SEEN and CHANGES models."""

from __future__ import annotations

from vde_dagster.api.kinds import IncrementalMeaning, SemanticVersion
from vde_dagster.api.models import Model
from vde_dagster.api.values import digest
from vde_dagster.plugins.vault.kinds import Changes, FirstSeen


def _skip_null_versions(
    model: Model, version: SemanticVersion, names: tuple[str, ...]
) -> list[str]:
    """Return the versions of the `skip_null` columns, whose NULLs leave out rows."""
    # NULLs in these columns determine which rows the table has.
    found = sorted(IncrementalMeaning.column_version(model, version, name) for name in names)
    return ["skip null", *found, "|"] if found else []


class FirstSeenMeaning(IncrementalMeaning):
    """Compares versions of FIRST_SEEN models, whose tables have the earliest row of each key."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        kind = FirstSeen.from_model(model)
        key = sorted(self.column_version(model, version, name) for name in kind.key)
        order = [self.column_version(model, version, name) for name in kind.order]
        every = version.columns.values()
        skipped = _skip_null_versions(model, version, kind.skip_null)
        return digest("first seen", version.rows, *key, "|", *order, "|", *skipped, *every)

    def is_cut_freely(self, model: Model) -> bool:
        # Any division into jobs gives equal rows.
        return not model.reads_itself or super().is_cut_freely(model)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        return (frozenset(name.lower() for name in FirstSeen.from_model(model).key),)


class ChangesMeaning(IncrementalMeaning):
    """Compares versions of CHANGES models, whose tables have the rows that change a key's state."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        kind = Changes.from_model(model)

        def versions(*names: str | None) -> list[str]:
            return sorted(self.column_version(model, version, name) for name in names if name)

        return digest(
            "changes",
            version.rows,
            kind.absent,
            *versions(*kind.key),
            "|",
            *versions(kind.time),
            "|",
            *versions(kind.source),
            "|",
            *versions(*kind.compare),
            "|",
            *versions(*kind.set_key),
            "|",
            *(["sequence", *versions(kind.sequence), "|"] if kind.sequence else []),
            *_skip_null_versions(model, version, kind.skip_null),
            *version.columns.values(),
        )

    def metadata(self, model: Model) -> list[str | None]:
        """Return the properties that do not change the table's rows, such as `most_deleted`."""
        kind = Changes.from_model(model)
        return [*super().metadata(model), *(["most", str(kind.most_deleted)] * kind.deletes)]

    def is_cut_freely(self, model: Model) -> bool:
        # Any division into jobs gives equal states.
        return not model.reads_itself or super().is_cut_freely(model)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        return (frozenset(name.lower() for name in Changes.from_model(model).identity),)
