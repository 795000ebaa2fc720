"""Server features for words: definitions, uses, renames, hover and completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.workspace import PositionCodec

from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.execution.project_files.fixing import fix_edits
from vde_dagster.programs.editor.navigation import (
    file_move,
    find_definitions,
    find_references,
    find_renamable_word,
    new_model_name,
    rename_symbol,
)
from vde_dagster.programs.editor.positions import split_lines
from vde_dagster.programs.editor.reading import Reading, Span
from vde_dagster.programs.editor.server import REFUSED, VdeServer
from vde_dagster.programs.editor.session import EditorSession
from vde_dagster.programs.editor.words.completion import Completion, completions
from vde_dagster.programs.editor.words.hover import hover
from vde_dagster.programs.editor.words.in_yaml import is_yaml
from vde_dagster.programs.editor.words.signatures import signature
from vde_dagster.sql.edits import Edit

T = TypeVar("T")
Q = TypeVar("Q", bound="Callable[[EditorSession, str, int], Any]")

_KINDS = {
    "model": lsp.CompletionItemKind.Class,
    "namespace": lsp.CompletionItemKind.Module,
    "column": lsp.CompletionItemKind.Field,
    "table": lsp.CompletionItemKind.Variable,
    "function": lsp.CompletionItemKind.Function,
    "macro": lsp.CompletionItemKind.Method,
    "variable": lsp.CompletionItemKind.Constant,
    "property": lsp.CompletionItemKind.Property,
    "value": lsp.CompletionItemKind.EnumMember,
}
_PositionParams = (
    lsp.DefinitionParams | lsp.ReferenceParams | lsp.HoverParams | lsp.RenameParams
    | lsp.CompletionParams | lsp.DocumentHighlightParams | lsp.PrepareRenameParams
    | lsp.SignatureHelpParams
)  # fmt: skip


def add_features(server: VdeServer) -> None:
    async def answer_at(
        params: _PositionParams, question: Callable[[EditorSession, str, int], T], none: T
    ) -> T:
        path = server.project_path(params.text_document.uri)
        if path is None:
            return none
        codec = server.workspace.position_codec

        def ask(session: EditorSession) -> T:
            offset = split_lines(session.read().text(path)).offset_at(params.position, codec)
            return question(session, path, offset)

        try:
            return await server.ask(ask)
        except ProjectError:
            return none  # The settings are wrong: diagnostics report that.
        except UsageError as error:
            raise JsonRpcException(error.text(". "), REFUSED) from error

    def register_handler(feature: str, options: Any = None, none: Any = None) -> Callable[[Q], Q]:
        def register(question: Q) -> Q:
            @server.feature(feature, options)
            async def answer(params: _PositionParams) -> Any:
                return await answer_at(params, question, none)

            return question

        return register

    @register_handler(lsp.TEXT_DOCUMENT_DEFINITION, none=[])
    def definition(session: EditorSession, path: str, offset: int) -> list[lsp.Location]:
        symbols = session.symbols()
        return locations(server, symbols.reading, find_definitions(symbols, path, offset))

    @register_handler(lsp.TEXT_DOCUMENT_REFERENCES, none=[])
    def all_references(session: EditorSession, path: str, offset: int) -> list[lsp.Location]:
        symbols = session.symbols()
        return locations(server, symbols.reading, find_references(symbols, path, offset))

    @register_handler(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, none=[])
    def highlight(session: EditorSession, path: str, offset: int) -> list[lsp.DocumentHighlight]:
        symbols = session.symbols()
        here = [one for one in find_references(symbols, path, offset) if one.path == path]
        return [
            lsp.DocumentHighlight(one.range) for one in locations(server, symbols.reading, here)
        ]

    @register_handler(lsp.TEXT_DOCUMENT_HOVER)
    def hover_at(session: EditorSession, path: str, offset: int) -> lsp.Hover | None:
        symbols = session.symbols()
        found = hover(symbols, path, offset)
        if found is None:
            return None
        (place,) = locations(server, symbols.reading, [found[0]])
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found[1]), place.range)

    @register_handler(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare(session: EditorSession, path: str, offset: int) -> lsp.Range | None:
        symbols = session.symbols()
        (place,) = locations(
            server, symbols.reading, [find_renamable_word(symbols, path, offset).span]
        )
        return place.range

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def renamed(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        def ask(session: EditorSession, path: str, offset: int) -> lsp.WorkspaceEdit | None:
            symbols = session.symbols()
            symbol = find_renamable_word(symbols, path, offset).symbol
            edits = rename_symbol(session, symbols, path, offset, params.new_name)
            edit = _workspace_edit(server, symbols.reading, edits)
            if symbol.kind == "model" and server.renames_files:
                new = new_model_name(symbol.model, params.new_name)
                _add_file_rename(server, edit, file_move(symbols, symbol.model, new))
            return edit

        has_changed = server.session.watch_changes()
        edit = await answer_at(params, ask, None)
        if has_changed():
            raise JsonRpcException("the files changed meanwhile. Rename again", REFUSED)
        return edit

    @register_handler(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", "@", "("]), []
    )
    def complete(session: EditorSession, path: str, offset: int) -> list[lsp.CompletionItem]:
        reading = session.last_reading()
        found = completions(reading, path, offset)
        item = partial(_completion_item, reading, path, offset, server.workspace.position_codec)
        return [item(number, one) for number, one in enumerate(found)]

    @register_handler(
        lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=["(", ","])
    )
    def call(session: EditorSession, path: str, offset: int) -> lsp.SignatureHelp | None:
        found = signature(session.last_reading(), path, offset)
        if found is None:
            return None
        parameters = [lsp.ParameterInformation(one) for one in found.parameters]
        shown = lsp.SignatureInformation(found.label, found.told, parameters, found.active)
        return lsp.SignatureHelp([shown], 0, found.active)

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
    )
    async def fixes(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        path = server.project_path(params.text_document.uri)
        if path is None:
            return []
        has_changed = server.session.watch_changes()
        try:
            found = await server.ask(
                lambda session: list(_quick_fixes(server, session.read(), path, params))
            )
        except ProjectError:
            return []  # The settings are wrong: diagnostics report that.
        return [] if has_changed() else found


def locations(server: VdeServer, reading: Reading, spans: Iterable[Span]) -> list[lsp.Location]:
    codec = server.workspace.position_codec
    return [
        lsp.Location(
            server.document_uri(span.path),
            split_lines(reading.text(span.path)).range(span.start, span.end, codec),
        )
        for span in spans
    ]


def _completion_item(
    reading: Reading, path: str, offset: int, codec: PositionCodec, number: int, one: Completion
) -> lsp.CompletionItem:
    text = reading.text(path)
    start, signs = offset, "_.`" if is_yaml(path) else "_@"
    while start and (text[start - 1].isalnum() or text[start - 1] in signs):
        start -= 1
    # Clients differ on where words begin, so the range is explicit.
    edit = lsp.TextEdit(split_lines(text).range(start, offset, codec), one.label)
    return lsp.CompletionItem(
        one.label,
        kind=_KINDS[one.kind],
        detail=one.detail or None,
        sort_text=f"{number:05}",
        text_edit=edit,
    )


def _workspace_edit(
    server: VdeServer, reading: Reading, edits: Mapping[str, Iterable[Edit]]
) -> lsp.WorkspaceEdit:
    codec = server.workspace.position_codec
    changes: dict[str, list[lsp.TextEdit]] = {}
    for path, given in edits.items():
        lines = split_lines(reading.text(path))
        changes[server.document_uri(path)] = [
            lsp.TextEdit(lines.range(one.start, one.end, codec), one.text) for one in given
        ]
    if not server.checks_versions:
        return lsp.WorkspaceEdit(changes=changes)
    known = server.workspace.text_documents
    documents = [
        lsp.OptionalVersionedTextDocumentIdentifier(
            uri, known[uri].version if uri in known else None
        )
        for uri in changes
    ]
    return lsp.WorkspaceEdit(
        document_changes=[lsp.TextDocumentEdit(one, list(changes[one.uri])) for one in documents]
    )


def _add_file_rename(
    server: VdeServer, edit: lsp.WorkspaceEdit, moved: tuple[str, str] | None
) -> None:
    # The client renames the file after it has changed the file's text.
    if moved is not None and edit.document_changes is not None:
        old, new = map(server.document_uri, moved)
        edit.document_changes = [*edit.document_changes, lsp.RenameFile(old_uri=old, new_uri=new)]


def _quick_fixes(
    server: VdeServer, reading: Reading, path: str, params: lsp.CodeActionParams
) -> Iterable[lsp.CodeAction]:
    codec = server.workspace.position_codec
    lines = split_lines(reading.text(path))
    begin = lines.offset_at(params.range.start, codec)
    stop = lines.offset_at(params.range.end, codec)
    for said in reading.problems:
        if said.location is None or said.location.path.as_posix() != path:
            continue
        start, end = lines.token_span(said.location)
        if end < begin or stop < start:
            continue
        place = lines.range(start, end, codec)
        for fix in said.fixes:
            edits = fix_edits(fix, said.location, reading.text)
            if edits is not None:
                yield lsp.CodeAction(
                    fix.title,
                    kind=lsp.CodeActionKind.QuickFix,
                    diagnostics=[one for one in params.context.diagnostics if one.range == place],
                    edit=_workspace_edit(server, reading, edits),
                    is_preferred=len(said.fixes) == 1,
                )
