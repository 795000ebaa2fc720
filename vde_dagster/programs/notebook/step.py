"""A notebook as a step: a kernel runs it, and requests rows from the model's context.

The kernel has no project, no state and no Spark. Its variable `workspace` sends requests over a
local connection, secured by a key, to the thread that fills the model's table. So a notebook reads
its parents as any Python model does, at the plan's versions.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ExecutionError, SourceLocation, VdeError
from vde_dagster.programs.notebook import step_rows
from vde_dagster.programs.notebook.cells import PARAMETERS
from vde_dagster.programs.notebook.step_workspace import END, STEP

if TYPE_CHECKING:
    import pyarrow as pa
    from jupyter_client.manager import KernelManager
    from nbformat import NotebookNode

    from vde_dagster.spark.models.python_models import ModelContext

KEPT_PLANS = 50
"""Number of plans whose executed notebooks (`.ipynb` files) are kept."""
_CANCEL_CHECK_SECONDS = 0.2
"""Seconds between two checks whether the plan was canceled."""
_KILL_AFTER_SECONDS = 5.0
"""Seconds after which an interrupted kernel is killed."""
_INJECTED = "injected-parameters"
"""Tag of the inserted cell, the same as in papermill."""
_BEGIN = "from vde_dagster.programs.notebook.extension import begin_step\nbegin_step(get_ipython())"


def run_notebook(context: ModelContext, code: object) -> pa.Table:
    """Run a notebook model, and return the rows that a cell passed to `workspace.yields`.

    Args:
        code: The function with the cells' code.

    Raises:
        ExecutionError: A cell failed, or no cell passed rows.
    """
    run = _NotebookRun(context)
    run.execute()
    if run.rows is None:
        raise ExecutionError(
            f"the notebook {run.path} yielded no rows",
            hint="call workspace.yields(rows) in a cell. If the notebook's HTML page is the only "
            "result, remove `columns` from the notebook's header",
        )
    return run.rows


def run_report(context: ModelContext, code: object) -> pa.Table:
    """Run a notebook model without declared columns, and return its HTML page as one row."""
    import pyarrow as pa

    run = _NotebookRun(context)
    run.execute()
    if run.rows is not None:
        raise ExecutionError(
            f"the notebook {run.path} yields rows, but its header does not declare their columns",
            hint="write columns (name TYPE, …) into its header",
        )
    return pa.table({"page": [page_html(run.notebook)]})


def page_html(notebook: NotebookNode) -> str:
    from nbconvert import HTMLExporter

    page, _ = HTMLExporter().from_notebook_node(notebook)
    return str(page)


@dataclass
class _NotebookRun:
    """One run of a notebook.

    Args:
        notebook: The notebook with its outputs so far.
        rows: The rows that were yielded last.
    """

    context: ModelContext
    rows: pa.Table | None = None
    path: str = field(init=False)
    notebook: NotebookNode = field(init=False)
    _failure: Exception | None = None

    def __post_init__(self) -> None:
        import nbformat

        # Not by its name: a file's name in code makes the file's content part of the version.
        self.path = next(path for path in self.context.files if path.endswith(".ipynb"))
        self.notebook = nbformat.reads(self.context.files[self.path], as_version=4)

    def execute(self) -> None:
        key = secrets.token_bytes(32)
        with TemporaryDirectory(prefix="vde_notebook_") as folder, Listener(authkey=key) as door:
            _write_modules(Path(folder), self.context.files)
            said = {
                "address": door.address,
                "key": key.hex(),
                "root": str(self.context.root or folder),
                "modules": folder,
                "parameters": _parameter_values(self.context),
            }
            work = threading.Thread(
                target=self._run_in_thread,
                args=(folder, json.dumps(said, default=str), door.address, key),
                daemon=True,
            )
            work.start()
            # Called in this thread, whose Spark jobs the plan can cancel.
            while self._handle_request(door):
                pass
            work.join()
        self._write_page()
        if self._failure is not None:
            raise self._failure

    def _run_in_thread(self, folder: str, said: str, address: Any, key: bytes) -> None:
        try:
            self._run_cells(folder, said)
        except Exception as error:
            self._failure = error
        finally:
            with Client(address, authkey=key) as door:
                door.send_bytes(END)

    def _run_cells(self, folder: str, said: str) -> None:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, DeadKernelError

        begin = nbformat.v4.new_code_cell(_BEGIN)
        cells = [begin, *_insert_parameters_cell(self.notebook.cells)]
        self.notebook.cells = list(cells)
        client = NotebookClient(
            self.notebook, kernel_name="python3", timeout=None, record_timing=False
        )
        manager = client.create_kernel_manager()
        if os.name == "posix":
            # Socket files that no other user may open, instead of ports.
            manager.transport, manager.connection_file = "ipc", f"{folder}/kernel.json"
        number = -1
        root = str(self.context.root or folder)
        with (
            client.setup_kernel(env={**os.environ, STEP: said}, cwd=root, cleanup_kc=True),
            self._stop_on_cancel(manager),
        ):
            try:
                for place, cell in enumerate(cells):
                    number += _INJECTED not in cell.metadata.get("tags", ())
                    client.execute_cell(cell, place, store_history=cell is not begin)
                client.set_widgets_metadata()
            except CellExecutionError as error:
                said_by = f"{error.ename}: {error.evalue}".strip().splitlines()[0]
                raise self._cell_error(f"cell {number} of {self.path} failed: {said_by}") from error
            except DeadKernelError as error:
                raise self._cell_error(
                    f"the kernel of {self.path} ended in cell {number}, perhaps for lack of memory"
                ) from error
            finally:
                self.notebook.cells.pop(0)

    @contextmanager
    def _stop_on_cancel(self, manager: KernelManager) -> Iterator[None]:
        ended = threading.Event()

        def watch() -> None:
            while not self.context.is_cancelled():
                if ended.wait(_CANCEL_CHECK_SECONDS):
                    return
            kernel = manager.provisioner
            assert kernel is not None
            asyncio.run(kernel.send_signal(signal.SIGINT))
            if not ended.wait(_KILL_AFTER_SECONDS):
                asyncio.run(kernel.kill())

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def _cell_error(self, message: str) -> ExecutionError:
        page = self.context.page
        return ExecutionError(
            f"{self.context.model}: {message}",
            hint=f"the notebook up to the failure is in {page}" if page else None,
            location=SourceLocation(Path(self.path)),
        )

    def _handle_request(self, door: Listener) -> bool:
        try:
            connection = door.accept()
        except (AuthenticationError, EOFError, OSError):
            return True  # The client does not have the key.
        with connection:
            try:
                asked = connection.recv_bytes()
                if asked == END:
                    return False
                rows = self._fulfill(json.loads(asked), connection)
            except (EOFError, OSError):
                return True  # The kernel ended during its request.
            except VdeError as error:
                _send_response(connection, {"error": error.message, "hint": error.hint})
            except Exception as error:
                from vde_dagster.spark.session.failures import execution_error

                told = execution_error(error, "the notebook's request")
                _send_response(connection, {"error": told.message, "hint": told.hint})
            else:
                _send_response(connection, {}, rows)
        return True

    def _fulfill(self, asked: Mapping[str, Any], connection: Connection) -> pa.Table | None:
        if asked["what"] == "read":
            return step_rows.read_parent(self.context, **asked["given"])
        if asked["what"] == "ask":
            return step_rows.query_parents(self.context, **asked["given"])
        self.rows = step_rows.decode_rows(connection.recv_bytes())
        return None

    def _write_page(self) -> None:
        import nbformat

        page = self.context.page
        if page is None:
            return
        with suppress(OSError):  # A page must never stop the work on the data.
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(nbformat.writes(self.notebook), encoding="utf-8")
            plans = sorted(page.parent.parent.iterdir(), key=lambda one: one.stat().st_mtime)
            for old in plans[:-KEPT_PLANS]:
                for file in old.glob("*.ipynb"):
                    file.unlink(missing_ok=True)
                old.rmdir()


def _send_response(
    connection: Connection, said: Mapping[str, Any], rows: pa.Table | None = None
) -> None:
    with suppress(OSError):  # The kernel may have ended meanwhile.
        connection.send_bytes(json.dumps({**said, "rows": rows is not None}).encode())
        if rows is not None:
            connection.send_bytes(step_rows.encode_rows(rows))


def _write_modules(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        if path.endswith(".py"):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


def _parameter_values(context: ModelContext) -> dict[str, Any]:
    known = context.keywords
    times = ("start", "end", "execution_time")
    return {**known, "latest": None, **{name: known[name].isoformat() for name in times}}


def _insert_parameters_cell(cells: Iterable[NotebookNode]) -> list[NotebookNode]:
    import nbformat

    made = []
    for cell in cells:
        made.append(cell)
        if cell.cell_type == "code" and PARAMETERS in cell.metadata.get("tags", ()):
            source = "workspace.set_parameters(globals())"
            metadata = {"tags": [_INJECTED]}
            made.append(nbformat.v4.new_code_cell(source, metadata=metadata))
            made[-1].pop("id", None)
    return made
