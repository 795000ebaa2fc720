"""The sink `dlt`: a table in any destination of dlt, with one load package per version."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vde_dagster.api.catalogs import Effects
from vde_dagster.api.errors import ExecutionError, UsageError
from vde_dagster.api.sinks import Batch, Step
from vde_dagster.api.values import how_to_install

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.api.workspace import Workspace

GONE = "vde_gone"
"""Column that is TRUE in rows that tell dlt to delete the row with the same key."""


class DltSink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table in a destination of dlt.

    Args:
        destination: The destination's name in dlt: `duckdb`, `snowflake`, `filesystem`, …
        options: Options of the destination, such as `credentials` or `bucket_url`.
        dataset: The schema or folder of the table.
    """

    destination: str
    dataset: str
    table: str
    options: dict[str, Any] = {}

    @property
    def place(self) -> str:
        return f"{self.destination} {_describe_address(self.options)} {self.dataset}.{self.table}"

    @contextmanager
    def open(
        self, workspace: Workspace, sync: str, *, dry: bool = False
    ) -> Iterator[PackageLoader]:
        effects = workspace.store.database.effects
        with tempfile.TemporaryDirectory(prefix="vde-dlt-") as folder:
            yield PackageLoader(self, effects, Path(folder))


_PLACES = ("host", "port", "database", "project_id", "account", "catalog", "http_path")


def _describe_address(options: Mapping[str, Any]) -> str:
    """Return the server and database from a destination's options, without logins."""
    found = []
    for value in options.values():
        if isinstance(value, str):
            found.append(value.partition("?")[0].rpartition("@")[2])
        elif isinstance(value, Mapping):
            found += [str(value[name]) for name in _PLACES if name in value]
    return " ".join(found)


@dataclass
class PackageLoader:
    """Collects a step's batches in a file, and loads them as one package at the end of the step."""

    sink: DltSink
    effects: Effects
    folder: Path
    _step: Step | None = None
    _schema: pa.Schema | None = None
    _file: Any = field(default=None)

    def begin(self, step: Step) -> None:
        """Open the file.

        Raises:
            UsageError: dlt is not installed, or the destination does not exist or cannot merge rows
                by key.
        """
        import pyarrow as pa

        # dlt would write `CustomerId` as `customer_id`, which existing tables do not have.
        own = [field.with_name(step.names.get(field.name, field.name)) for field in step.schema]
        self._step, self._schema = step, pa.schema(own)
        if step.mode == "mirror":
            self._schema = self._schema.append(pa.field(GONE, pa.bool_()))
        self._require_merge(step)
        self._file = pa.ipc.new_stream(str(self._rows), self._schema)

    def send(self, batch: Batch) -> int:
        import pyarrow as pa

        gone_flag = {GONE: False} if self._has_gone_column else {}
        rows = [{**self._rename_columns(row), **gone_flag} for row in batch.rows]
        rows += [{**self._rename_columns(key), GONE: True} for key in batch.gone]
        self._file.write_table(pa.Table.from_pylist(rows, schema=self._schema))
        return len(batch)

    def end(self) -> int:
        from dlt.common.exceptions import DltException

        assert self._step is not None, "begun before it ends"
        self._file.close()
        try:
            with self.effects.at("sync.dlt", self.sink.place):
                self._load(self._step)
        except (DltException, OSError) as error:
            message = " ".join(str(error.__cause__ or error).split()) or type(error).__name__
            raise ExecutionError(
                f"{self.sink.place} failed: {message[:500]}",
                hint="run the sync again: it continues with the same version",
            ) from error
        return 0

    def _rename_columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        names = self._step.names if self._step is not None else {}
        return {names.get(name, name): value for name, value in row.items()}

    @property
    def _rows(self) -> Path:
        return self.folder / "rows.arrow"

    @property
    def _has_gone_column(self) -> bool:
        return self._schema is not None and GONE in self._schema.names

    def _load(self, step: Step) -> None:
        dlt = _dlt()
        # A package with all rows replaces the table.
        replaces = step.mode == "mirror" and not step.since
        disposition = "replace" if replaces else "merge" if step.key else "append"
        pipeline = dlt.pipeline(
            f"vde_{step.sync}_{step.environment}",
            pipelines_dir=str(self.folder / "dlt"),
            destination=self._destination(),
            dataset_name=self.sink.dataset,
        )
        columns: dict[str, Any] = {GONE: {"hard_delete": True}} if self._has_gone_column else {}
        rows = dlt.resource(
            self._read(),
            name=self.sink.table,
            write_disposition=disposition,
            primary_key=[step.names.get(name, name) for name in step.key] or None,
            columns=columns,
        )
        pipeline.run(rows)

    def _read(self) -> Iterator[Any]:
        import pyarrow as pa

        with pa.ipc.open_stream(str(self._rows)) as file:
            empty = True
            for batch in file:
                empty = False
                yield pa.Table.from_batches([batch])
            if empty:
                yield file.schema.empty_table()

    def _destination(self) -> Any:
        sink, dlt = self.sink, _dlt()
        try:
            return dlt.common.destination.Destination.from_reference(
                sink.destination, **sink.options
            )
        except Exception as error:
            raise UsageError(
                f"dlt cannot open the destination '{sink.destination}': {error}",
                hint="dlt's documentation lists the names and options of destinations",
            ) from error

    def _require_merge(self, step: Step) -> None:
        known = self._destination().capabilities()
        merges = known.supported_merge_strategies or ()
        if known.merge_strategies_selector is not None:
            merges = known.merge_strategies_selector(merges, table_schema={})
        if step.key and not merges:
            raise UsageError(
                f"dlt's destination '{self.sink.destination}' cannot merge rows by key, but the "
                f"mode of '{step.sync}' is {step.mode}",
                hint="use mode: append, without a key",
            )


def _dlt() -> Any:
    # By default it reports each run to its makers, and prints hints that do not apply here.
    os.environ.setdefault("RUNTIME__DLTHUB_TELEMETRY", "false")
    os.environ.setdefault("RUNTIME__LOG_LEVEL", "ERROR")
    try:
        import dlt
        import dlt.common.destination
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the sink dlt needs a package that is not installed: {error.name}",
            hint=how_to_install("dlt"),
        ) from error
    return dlt
