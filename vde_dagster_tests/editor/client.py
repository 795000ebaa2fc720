"""An editor for tests: a client of LSP, which starts `vde lsp` and talks with it over stdio."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.protocol import default_converter
from pygls.uris import from_fs_path
from pytest_lsp import LanguageClient, client_capabilities

SECONDS = 30.0


class Editor:
    """A client with documents that a test opens and edits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.client: Any = LanguageClient(converter_factory=default_converter)
        self.versions: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.takes_whole_texts = False
        self.published: list[lsp.PublishDiagnosticsParams] = []

    def uri(self, path: str) -> str:
        return from_fs_path(str(self.root / path)) or ""

    async def open(self, path: str, text: str | None = None) -> None:
        given = (self.root / path).read_text() if text is None else text
        self.versions[path], self.texts[path] = 1, given
        language = {"py": "python", "yaml": "yaml"}.get(path.rpartition(".")[2], "sql")
        document = lsp.TextDocumentItem(self.uri(path), language, 1, given)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))

    def type(self, path: str, text: str) -> int:
        """Put a text in a document's place; return its version."""
        self.versions[path] += 1
        self.texts[path] = text
        document = lsp.VersionedTextDocumentIdentifier(self.versions[path], self.uri(path))
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))
        return self.versions[path]

    def type_at(self, path: str, line: int, character: int, text: str) -> None:
        """Insert a text at a position, in the client's units; lines end as LSP has it."""
        if self.takes_whole_texts:
            ends = [0, *(m.end() for m in re.finditer("\r\n|\n|\r", self.texts[path]))]
            units = self.texts[path][ends[line] :].encode("utf-16-le")[: 2 * character]
            offset = ends[line] + len(units.decode("utf-16-le"))
            self.type(path, self.texts[path][:offset] + text + self.texts[path][offset:])
            return
        self.versions[path] += 1
        at = lsp.Position(line, character)
        document = lsp.VersionedTextDocumentIdentifier(self.versions[path], self.uri(path))
        change = lsp.TextDocumentContentChangePartial(lsp.Range(at, at), text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    def save(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)
        document = self.document(path)
        self.client.text_document_did_save(lsp.DidSaveTextDocumentParams(document))

    def close(self, path: str) -> None:
        document = self.document(path)
        self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))

    def files_changed(self, *paths: str) -> None:
        events = [lsp.FileEvent(self.uri(path), lsp.FileChangeType.Changed) for path in paths]
        params = lsp.DidChangeWatchedFilesParams(events)
        self.client.workspace_did_change_watched_files(params)

    def document(self, path: str) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri(path))

    def said(self, path: str) -> list[str]:
        """Return what the newest diagnostics of a file say, by their places (from 1)."""
        newest = [one for one in self.published if one.uri == self.uri(path)]
        return [
            f"{d.range.start.line + 1}:{d.range.start.character + 1} {d.message.splitlines()[0]}"
            for d in (newest[-1].diagnostics if newest else [])
        ]

    async def until(self, true: Callable[[], Any]) -> None:
        """Wait until something holds."""
        end = asyncio.get_running_loop().time() + SECONDS
        while not true():
            assert asyncio.get_running_loop().time() < end, "it did not come to hold"
            await asyncio.sleep(0.02)

    async def lenses(self, path: str) -> list[str]:
        params = lsp.CodeLensParams(self.document(path))
        found = await self.client.text_document_code_lens_async(params)
        return [one.command.title for one in found or [] if one.command.command == "vde.plan"]

    async def run(self, command: str, *arguments: Any) -> Any:
        params = lsp.ExecuteCommandParams(command, list(arguments))
        return await self.client.workspace_execute_command_async(params)


@asynccontextmanager
async def editor(
    root: Path, environment: str = "prod", *, only_folders: bool = False
) -> AsyncIterator[Editor]:
    """Open a folder in an editor; at the end the server must have ended by itself."""
    it = Editor(root)

    @it.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params: lsp.PublishDiagnosticsParams) -> None:
        it.published.append(params)

    @it.client.feature(lsp.CLIENT_REGISTER_CAPABILITY)
    def register(params: lsp.RegistrationParams) -> None:
        return None

    @it.client.feature(lsp.WORKSPACE_CODE_LENS_REFRESH)
    def refresh(params: None) -> None:
        return None

    await it.client.start_io(sys.executable, "-m", "vde_dagster.cli", "lsp", cwd=str(root.parent))
    server = it.client._server
    folder = lsp.WorkspaceFolder(from_fs_path(str(root)) or "", root.name)
    params = lsp.InitializeParams(
        capabilities=client_capabilities("visual-studio-code"),
        root_uri=None if only_folders else folder.uri,
        workspace_folders=[folder],
        initialization_options={"environment": environment},
    )
    started = await it.client.initialize_session(params)
    sync = started.capabilities.text_document_sync
    it.takes_whole_texts = sync.change is lsp.TextDocumentSyncKind.Full
    try:
        yield it
        await it.client.shutdown_session()
        assert await asyncio.wait_for(server.wait(), SECONDS) == 0
    finally:
        if server.returncode is None:
            server.kill()
        await it.client.stop()


def scenario(test: Callable[[Editor], Awaitable[None]], root: Path) -> None:
    """Run a test's scenario in an editor of a folder."""

    async def all_of_it() -> None:
        async with editor(root) as it:
            await test(it)

    asyncio.run(all_of_it())
