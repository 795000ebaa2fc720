"""The language server `vde lsp`, over stdin and stdout, for any LSP client.

One separate thread runs all analyses, in the order of requests, so the server can receive messages
during an analysis. Diagnostics of outdated texts are not sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from vde_dagster.base.installing import __version__
from vde_dagster.errors import ProjectError, SourceLocation, UsageError, VdeError
from vde_dagster.execution.project_files.format_files import format_file_text
from vde_dagster.programs.editor.diagnostics import SOURCE, diagnostics
from vde_dagster.programs.editor.lenses import lenses
from vde_dagster.programs.editor.picture import lineage_picture
from vde_dagster.programs.editor.positions import split_lines
from vde_dagster.programs.editor.reading import Reading, file_text
from vde_dagster.programs.editor.running import (
    MOST_ROWS,
    QueryRunner,
    find_runnable_queries,
    query_at_cursor,
)
from vde_dagster.programs.editor.session import EditorSession, plan_text

T = TypeVar("T")
KIND = lsp.SymbolKind.Class
MOST_SYMBOLS = 200
REFUSED = -32803
"""LSP's RequestFailed: the request is valid but cannot be carried out."""

POLL_SECONDS = 2.0
"""Minimum seconds between checks of files' times, for clients that report no changes."""
QUIET_SECONDS = 0.08
"""Seconds without typing before the texts are analyzed."""
STOP_SECONDS = 0.2
"""Seconds for a query to stop before it is interrupted again."""
WATCHED = "**/*.{sql,py,csv,yaml,yml,toml}"


class VdeServer(LanguageServer):
    def __init__(self, root: Path | None) -> None:
        # Whole texts, because pygls also splits lines at form feeds and U+2028, unlike clients.
        super().__init__("vde", __version__, lsp.TextDocumentSyncKind.Full)
        self.session = EditorSession(root or Path())
        self.runner = QueryRunner(self.session.root)
        self._analysis_thread = ThreadPoolExecutor(1, "desk")
        self._spark = ThreadPoolExecutor(1, "spark")
        self._queries: set[Future[str]] = set()
        self._reported: set[str] = set()
        self._checking: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None

    # -- files -----------------------------------------------------------------------------

    def project_path(self, uri: str) -> str | None:
        """Return a document's path relative to the project's folder, or None if it is outside."""
        name = to_fs_path(uri)
        return None if name is None else self.session.relative_path(Path(name))

    def document_uri(self, path: str) -> str:
        return from_fs_path(str(self.session.opened_root / path)) or ""

    def update_text(self, uri: str, *, saved: bool = False) -> None:
        """Store a document's current text, and schedule an analysis."""
        path = self.project_path(uri)
        if path is not None and (saved or not path.endswith(".py")):
            self.session.set_text(path, self.workspace.get_text_document(uri).source)
        self.schedule_analysis()

    # -- requests --------------------------------------------------------------------------

    async def ask(self, question: Callable[[EditorSession], T]) -> T:
        """Run a function on the thread that owns the session, and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._analysis_thread, question, self.session)

    async def read_texts(self) -> Reading | None:
        """Read the project with all current texts, or return None if its settings are invalid."""
        with suppress(ProjectError):
            return await self.ask(EditorSession.read)
        return None

    def schedule_analysis(self) -> None:
        """Analyze the texts once typing pauses. This replaces a pending analysis."""
        if self._checking is not None and not self._checking.done():
            self._checking.cancel()
        self._checking = asyncio.get_running_loop().create_task(self._analyze())

    def start_polling(self) -> None:
        """Begin to check files and the environment for changes every few seconds."""
        self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        known = None
        while True:
            begun = time.monotonic()
            with suppress(OSError):  # The folder may be replaced at this moment.
                state = await self.ask(EditorSession.folder_state)
                if known is not None and state != known:
                    self.session.mark_files_changed()
                    self.schedule_analysis()
                known = state
            # It uses at most a twentieth of the time, however many files there are.
            await asyncio.sleep(max(POLL_SECONDS, 20 * (time.monotonic() - begun)))

    async def _analyze(self) -> None:
        await asyncio.sleep(QUIET_SECONDS)
        has_changed = self.session.watch_changes()
        try:
            reading = await self.ask(EditorSession.read)
            if has_changed():
                return  # A newer analysis was scheduled.
            self._publish(diagnostics(reading, self.workspace.position_codec))
            await self.ask(EditorSession.preview_plan)
        except ProjectError as error:
            self._publish_settings_errors(error)
            return
        except Exception as error:
            self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, repr(error)))
            return
        if not has_changed() and self._capability("code_lens.refresh_support"):
            self.workspace_code_lens_refresh(None)

    @property
    def renames_files(self) -> bool:
        """Whether the client can rename files as part of an edit."""
        kinds = self._capability("workspace_edit.resource_operations")
        return lsp.ResourceOperationKind.Rename in (kinds or ())

    @property
    def checks_versions(self) -> bool:
        """Whether the client compares the versions of the documents in an edit with its own."""
        return bool(self._capability("workspace_edit.document_changes"))

    def _capability(self, name: str) -> Any:
        return get_capability(self.client_capabilities, f"workspace.{name}")

    def _publish(self, found: dict[str, list[lsp.Diagnostic]]) -> None:
        for path in sorted({*found, *self._reported}):
            uri = self.document_uri(path)
            open_ = self.workspace.text_documents.get(uri)
            params = lsp.PublishDiagnosticsParams(
                uri, found.get(path, []), open_.version if open_ is not None else None
            )
            self.text_document_publish_diagnostics(params)
        self._reported = set(found)

    def _publish_settings_errors(self, error: ProjectError) -> None:
        codec = self.workspace.position_codec
        found: dict[str, list[lsp.Diagnostic]] = {}
        for mistake in error.mistakes:
            path = mistake.location.path.as_posix() if mistake.location else "pyproject.toml"
            lines = split_lines(file_text(self.session.root, path))
            start, end = lines.token_span(mistake.location) if mistake.location else (0, 0)
            said = lsp.Diagnostic(
                lines.range(start, end, codec),
                mistake.text("\n").split(": ", 1)[-1] if mistake.location else mistake.text("\n"),
                severity=lsp.DiagnosticSeverity.Error,
                source=SOURCE,
            )
            found.setdefault(path, []).append(said)
        self._publish(found)

    # -- answers ---------------------------------------------------------------------------

    def client_location(self, reading: Reading, location: SourceLocation) -> lsp.Location:
        path = location.path.as_posix()
        lines = split_lines(reading.text(path))
        range_ = lines.range(*lines.token_span(location), self.workspace.position_codec)
        return lsp.Location(self.document_uri(path), range_)

    async def lenses(self, uri: str) -> list[lsp.CodeLens]:
        """Return the lines to show above models and CTEs: effects, and commands to run them."""
        path = self.project_path(uri)
        if path is None:
            return []
        try:
            reading, found = await self.ask(
                lambda session: (
                    session.read(),
                    lenses(session.read(), session.preview_plan(), path),
                )
            )
        except ProjectError:
            return []
        lines, codec = split_lines(reading.text(path)), self.workspace.position_codec
        entries: list[tuple[lsp.Position, str, str, list[Any]]] = [
            (lsp.Position(one.line - 1, 0), one.text, "vde.plan", [uri]) for one in found
        ]
        for offset, one in find_runnable_queries(reading, path):
            at = lines.position(offset, codec)
            entries.append((at, f"run {one.title}", "vde.run", [uri, at.line, at.character]))
        return [
            lsp.CodeLens(lsp.Range(at, at), lsp.Command(title, command, arguments=arguments))
            for at, title, command, arguments in entries
        ]

    async def run_query(self, uri: str, line: int, character: int, limit: int = MOST_ROWS) -> str:
        """Run the query at a position, and return its rows as a Markdown table."""
        path = self.project_path(uri)
        if path is None:
            raise UsageError("the file does not belong to the project")
        reading = await self.ask(EditorSession.read)
        position, codec = lsp.Position(line, character), self.workspace.position_codec
        what = query_at_cursor(
            reading, path, split_lines(reading.text(path)).offset_at(position, codec)
        )
        work = partial(self.runner.run, reading, self.session.environment, what, limit)
        query = self._spark.submit(work)
        self._queries.add(query)
        try:
            return await asyncio.wrap_future(query)
        except (asyncio.CancelledError, VdeError) as error:
            if query in self._queries:
                raise
            raise UsageError("the query was stopped") from error
        finally:
            self._queries.discard(query)

    async def stop(self) -> None:
        # LSP's own cancellation does not reach commands: pygls cancels only the waiting coroutine.
        stopped, self._queries = self._queries, set()
        waiting = {query for query in stopped if not query.cancel()}
        while waiting:  # They may be on their way to Spark.
            self.runner.interrupt()
            loop, ended = asyncio.get_running_loop(), partial(wait, waiting, STOP_SECONDS)
            waiting = (await loop.run_in_executor(None, ended)).not_done

    async def format_document(self, uri: str) -> list[lsp.TextEdit] | None:
        """Return the edits that format a document, or None if it cannot be formatted."""
        path = self.project_path(uri)
        if path is None or not path.endswith(".sql"):
            return None
        text = self.workspace.get_text_document(uri).source
        before = text.replace("\r\n", "\n")
        try:
            made = await self.ask(
                lambda session: format_file_text(Path(path), before, session.settings)
            )
        except VdeError:
            return None
        if made is None or made == before:
            return None
        if before != text:
            made = made.replace("\n", "\r\n")
        lines = split_lines(text)
        codec = self.workspace.position_codec
        return [lsp.TextEdit(lines.range(0, len(text), codec), made)]

    def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        self._analysis_thread.submit(self.session.close)
        self._spark.submit(self.runner.close)
        for threads in (self._analysis_thread, self._spark):
            threads.shutdown(wait=True, cancel_futures=False)


def make_server(root: Path | None = None) -> VdeServer:
    """Create a language server for `root`, or by default for the client's folder."""
    server = VdeServer(root)

    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams) -> None:
        said = params.initialization_options or {}
        named = [server.workspace.root_path, *map(to_fs_path, server.workspace.folders)]
        folder = root or Path(next(filter(None, named), "."))
        server.session = EditorSession(folder, str(said.get("environment") or "prod"))
        server.runner = QueryRunner(server.session.root)

    @server.feature(lsp.INITIALIZED)
    async def initialized(_: lsp.InitializedParams) -> None:
        if server._capability("did_change_watched_files.dynamic_registration"):
            watcher = lsp.FileSystemWatcher(WATCHED)
            options = lsp.DidChangeWatchedFilesRegistrationOptions([watcher])
            method = lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = lsp.Registration("files", method, options)
            server.client_register_capability(lsp.RegistrationParams([registration]), None)
        server.schedule_analysis()
        server.start_polling()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.update_text(params.text_document.uri, saved=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.update_text(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        server.update_text(params.text_document.uri, saved=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        path = server.project_path(params.text_document.uri)
        if path is not None:
            server.session.set_text(path, None)
        server.schedule_analysis()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def files_changed(_: lsp.DidChangeWatchedFilesParams) -> None:
        server.session.mark_files_changed()
        server.schedule_analysis()

    @server.feature(lsp.SHUTDOWN)
    async def shutdown(_: None) -> None:
        await server.stop()
        server.close()

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions(resolve_provider=False))
    async def code_lens(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        return await server.lenses(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    async def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        return await server.format_document(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        reading, path = await server.read_texts(), server.project_path(params.text_document.uri)
        if reading is None or path is None:
            return []
        codec = server.workspace.position_codec
        lines = split_lines(reading.text(path))
        found = []
        for model in reading.models_in(path):
            place = lines.range(*lines.token_span(model.location), codec)
            name, kind = str(model.name), model.kind.name
            found.append(lsp.DocumentSymbol(name, lsp.SymbolKind.Class, place, place, kind))
        return found

    @server.feature(lsp.WORKSPACE_SYMBOL)
    async def project_symbols(params: lsp.WorkspaceSymbolParams) -> list[lsp.SymbolInformation]:
        reading = await server.read_texts()
        if reading is None:
            return []
        return [
            lsp.SymbolInformation(server.client_location(reading, model.location), str(name), KIND)
            for name, model in reading.project.models.items()
            if params.query.lower() in str(name) and not model.kind.is_external
        ][:MOST_SYMBOLS]

    async def answer(work: Awaitable[str]) -> str:
        try:
            return await work
        except VdeError as error:
            raise JsonRpcException(error.text(". "), REFUSED) from error

    @server.command("vde.plan")
    async def plan(*_: Any) -> str:
        return await answer(server.ask(plan_text))

    @server.command("vde.lineage")
    async def lineage(uri: str) -> str:
        path = server.project_path(uri) or ""
        return await answer(server.ask(lambda one: lineage_picture(one.read(), path)))

    @server.command("vde.run")
    async def run(uri: str, line: int, character: int, *most: int) -> str:
        return await answer(server.run_query(uri, line, character, *most))

    @server.command("vde.stop")
    async def stop(*_: Any) -> None:
        await server.stop()

    return server
