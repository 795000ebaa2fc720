"""The variable `workspace` in the kernel of a notebook that runs as a step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from multiprocessing.connection import Client
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vde_dagster.errors import UsageError
from vde_dagster.programs.notebook.results import Rows, as_arrow
from vde_dagster.programs.notebook.step_rows import decode_rows, encode_rows

if TYPE_CHECKING:
    import pyarrow as pa

STEP = "VDE_NOTEBOOK_STEP"
"""Environment variable with the connection for a kernel."""
END = b"end"
_CAPTION = "this step"


class StepWorkspace:
    """The variable `workspace` in the kernel of a notebook that runs as a model.

    Args:
        said: Settings of the step as JSON, from an environment variable.

    Attributes:
        root: The project's folder.
        modules: Folder with the project's modules as they were when the plan was created.
    """

    def __init__(self, said: str) -> None:
        given = json.loads(said)
        self.root = Path(given["root"])
        self.modules: str = given["modules"]
        self.pins: dict[str, int] = {}
        self._address: Any = given["address"]
        self._key = bytes.fromhex(given["key"])
        self._parameters: dict[str, Any] = given["parameters"]

    def read(
        self,
        model: str,
        environment: str = "prod",
        columns: Sequence[str] = (),
        *,
        where: str | None = None,
        order_by: Sequence[str] = (),
        limit: int | None = None,
    ) -> Rows:
        """Read rows of a model, at the plan's version; see `NotebookWorkspace.read`.

        Args:
            environment: Without effect: rows come from the plan's environment.

        Raises:
            UsageError: The notebook does not declare this input, or requests a version.
        """
        given = {
            "model": model,
            "columns": list(columns),
            "where": where,
            "order_by": list(order_by),
            "limit": limit,
        }
        return self._request_rows("read", environment, given)

    def ask(self, environment: str, sql: str, limit: int | None = None) -> Rows:
        return self._request_rows("ask", environment, {"sql": sql, "limit": limit})

    def yields(self, rows: Any) -> None:
        """Use rows (Arrow, pandas, Polars or DuckDB) as the rows of the model's table."""
        self._request({"what": "yield"}, encode_rows(as_arrow(rows)))

    def set_parameters(self, variables: dict[str, Any]) -> None:
        """Set the notebook's variables to the step's values, and print them."""
        for name, value in self._parameters.items():
            if name in variables and value is not None:
                is_time = name in ("start", "end", "execution_time")
                variables[name] = datetime.fromisoformat(value) if is_time else value
                print(f"{name} = {value!r}")

    def pin(self, environment: str) -> NoReturn:
        raise UsageError(
            f"{environment} cannot be pinned in a step, which reads its plan's versions",
            hint="tag the cell `skip-execution`",
        )

    def pinned(self, environment: str) -> str:
        """Return the caption `this step`. Raise UsageError for a version such as `dev@9`."""
        if "@" in environment:
            self.pin(environment)
        return _CAPTION

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a step's workspace has no '{name}': it supports read, ask and yields; add the tag "
            "`skip-execution` to cells that steps should not run"
        )

    def _request_rows(self, what: str, environment: str, given: dict[str, Any]) -> Rows:
        shown = self.pinned(environment)
        rows = self._request({"what": what, "given": given})
        assert rows is not None
        return Rows(rows, shown)

    def _request(self, asked: dict[str, Any], rows: memoryview | None = None) -> pa.Table | None:
        with Client(self._address, authkey=self._key) as connection:
            connection.send_bytes(json.dumps(asked).encode())
            if rows is not None:
                connection.send_bytes(rows)
            said = json.loads(connection.recv_bytes())
            if "error" in said:
                raise UsageError(said["error"], hint=said["hint"])
            return decode_rows(connection.recv_bytes()) if said["rows"] else None
