"""Operations on an Iceberg lakehouse without Spark, such as publishing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vde_dagster.errors import DamagedFileError, UsageError
from vde_dagster.lakehouse.handles import LakeHandles
from vde_dagster.planning.tables.table import TableRef

if TYPE_CHECKING:
    from vde_dagster.lakehouse.publishing.new_table import NewTable
    from vde_dagster.lakehouse.publishing.publication import Publication
    from vde_dagster.planning.environments.environment import Environment


class Lakehouse(LakeHandles):
    """Iceberg tables and views of a project, with operations such as `publish` and `recover`."""

    # Each operation imports its modules only when it is called, because a plan calls no operation.

    @contextmanager
    def naming_damage(self, refs: Callable[[Exception], Collection[TableRef]]) -> Iterator[None]:
        """Run the block. If it fails, look for a damaged file of the tables from `refs(error)`.

        Raises:
            DamagedFileError: The block failed, and a file is missing or damaged. If no such file is
                found, the block's error is raised unchanged.
        """
        try:
            yield
        except (UsageError, DamagedFileError):
            raise
        except Exception as error:
            from vde_dagster.lakehouse.maintenance.fsck import find_damage

            damaged = find_damage(self, refs(error))
            if damaged is not None:
                raise damaged from error
            raise

    def create_table(self, new: NewTable) -> bool:
        """Create an unpartitioned Iceberg table. Return False if it exists."""
        from vde_dagster.lakehouse.publishing.new_table import create_table

        return create_table(self, new)

    def published_views(self, environment: str) -> list[TableRef]:
        """Return the names of the views that an environment published."""
        from vde_dagster.lakehouse.publishing.view_ledger import published_views

        with self.store.database.reading() as conn:
            return list(published_views(conn, self.catalog_name, environment=environment))

    def views_ending(self, environment: str, suffix: str) -> dict[TableRef, dict[str, str]]:
        """Return the properties of the published views whose names end with a suffix.

        A view that another program changed or dropped gets an empty dictionary.
        """
        views = self._views_there(environment, suffix)

        def read(item: tuple[TableRef, str | None]) -> tuple[TableRef, dict[str, str]]:
            ref, location = item
            try:
                metadata = self.files.read_json(location) if location is not None else {}
            except FileNotFoundError:
                return ref, {}
            return ref, dict(metadata.get("properties", {}))

        return dict(self.files.each(read, list(views.items())))

    def moved_views(self, environment: str) -> set[TableRef]:
        """Return the views of an environment that another program changed or dropped."""
        return {ref for ref, at in self._views_there(environment).items() if at is None}

    def _views_there(self, environment: str, ending: str = "") -> dict[TableRef, str | None]:
        from vde_dagster.lakehouse.publishing.view_ledger import published_views

        with self.store.database.reading() as conn:
            ledger = published_views(
                conn, self.catalog_name, environment=environment, ending=ending
            )
            pointers = self.catalog.pointers(ledger, conn) if ledger else {}
        found = {ref: (known.metadata_location, pointers.get(ref)) for ref, known in ledger.items()}
        return {ref: at if now and now.location == at else None for ref, (at, now) in found.items()}

    def publish(self, publication: Publication) -> Environment:
        from vde_dagster.lakehouse.publishing.publish import publish

        return publish(self, publication)

    def recover(self) -> bool:
        from vde_dagster.lakehouse.publishing.finish_publication import recover

        return recover(self)
