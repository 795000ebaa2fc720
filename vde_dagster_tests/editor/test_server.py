"""`vde lsp` over stdio: diagnostics as one types, consequences above models, nothing stale."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.workspace import Workspace as ClientWorkspace

from vde_dagster.execution.workspace import Workspace
from vde_dagster.programs.editor.features import add_features
from vde_dagster.programs.editor.server import REFUSED, make_server
from vde_dagster.spark.session.settings import SessionSettings
from vde_dagster.spark.session.warm import stop_engines
from vde_dagster_tests.editor.client import SECONDS, Editor, editor, scenario
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.server
DAILY = "models/marts/daily.sql"
CUSTOMERS = "models/marts/customers.sql"
STAGING = "models/staging/orders.sql"
TOP = "models/marts/top.sql"


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path, SHOP)


def test_a_mistake_is_said_at_its_place_while_it_is_typed_and_goes_when_it_is_mended(
    shop: ProjectFolder,
) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(CUSTOMERS)
        text = (shop.root / CUSTOMERS).read_text()
        editor.type(CUSTOMERS, text.replace("sum(amount)", "sum(amont)"))
        await editor.until(lambda: editor.said(CUSTOMERS))
        (said,) = editor.said(CUSTOMERS)
        assert said.startswith("4:22 ")
        assert "amont" in said
        (one,) = [d for p in editor.published for d in p.diagnostics][-1:]
        assert (one.range.end.character - one.range.start.character) == len("amont")
        assert "Did you mean 'amount'?" in one.message
        editor.type(CUSTOMERS, text)
        await editor.until(lambda: not editor.said(CUSTOMERS))

    scenario(test, shop.root)


def test_what_an_edit_breaks_elsewhere_is_said_there(shop: ProjectFolder) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(STAGING)
        text = (shop.root / STAGING).read_text()
        editor.type(STAGING, text.replace("customer, amount", "customer, amount AS paid"))
        await editor.until(lambda: editor.said(DAILY) and editor.said(CUSTOMERS))
        assert any("amount" in said for said in editor.said(DAILY))
        assert not editor.said(STAGING)
        editor.type(STAGING, text)
        await editor.until(lambda: not (editor.said(DAILY) or editor.said(CUSTOMERS)))

    scenario(test, shop.root)


def test_a_half_written_file_has_one_mistake_and_others_none(shop: ProjectFolder) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(STAGING)
        text = (shop.root / STAGING).read_text()
        await editor.lenses(STAGING)
        editor.type(STAGING, text.replace("SELECT id, customer", "SELECT id, (customer"))
        await editor.until(lambda: editor.said(STAGING))
        assert len(editor.said(STAGING)) == 1
        assert not any(editor.said(path) for path in (DAILY, CUSTOMERS, TOP))

    scenario(test, shop.root)


def test_positions_are_counted_as_clients_do(shop: ProjectFolder) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(CUSTOMERS)
        text = (shop.root / CUSTOMERS).read_text()
        head, body = text.split(";\n", 1)
        editor.type(CUSTOMERS, f"{head};\nSELECT '🦆🦆' AS duck, customer, amont{body[15:]}")
        await editor.until(lambda: editor.said(CUSTOMERS))
        before = "SELECT '🦆🦆' AS duck, customer, "
        units = len(before.encode("utf-16-le")) // 2
        assert editor.said(CUSTOMERS)[0].startswith(f"4:{units + 1} ")
        # An insertion at a position behind them: the server's text must be the client's.
        editor.type(CUSTOMERS, f"{head};\n{before}amount, 1 AS one FROM staging.orders\n")
        await editor.until(lambda: not editor.said(CUSTOMERS))
        editor.type_at(CUSTOMERS, 3, units + len("amount"), "s")
        await editor.until(lambda: editor.said(CUSTOMERS))
        assert "amounts" in editor.said(CUSTOMERS)[0]

    scenario(test, shop.root)


def test_lines_end_as_clients_have_it(shop: ProjectFolder) -> None:
    async def test(editor: Editor) -> None:
        head = "MODEL (name marts.customers, kind FULL);\n/* \f \u2028 \x85 */\n"
        await editor.open(CUSTOMERS, f"{head}SELECT 1 AS customer, 2 AS revenue\n")
        editor.type_at(CUSTOMERS, 2, len("SELECT "), "amont + ")
        await editor.until(lambda: editor.said(CUSTOMERS))
        assert editor.said(CUSTOMERS)[0].startswith("3:8 ")
        assert "amont" in editor.said(CUSTOMERS)[0]

    scenario(test, shop.root)


def test_a_text_with_carriage_returns_is_edited_at_the_right_places(shop: ProjectFolder) -> None:
    text = (shop.root / CUSTOMERS).read_text()
    (shop.root / CUSTOMERS).write_bytes(text.replace("\n", "\r\n").encode())

    async def test(editor: Editor) -> None:
        await editor.open(CUSTOMERS, text.replace("\n", "\r\n"))
        line = text.splitlines().index(next(t for t in text.splitlines() if "SELECT" in t))
        column = text.splitlines()[line].index("revenue")
        place = lsp.Position(line, column)
        wanted = lsp.RenameParams(editor.document(CUSTOMERS), place, "takings")
        edit = await editor.client.text_document_rename_async(wanted)
        own = [one for one in edit.document_changes if one.text_document.uri.endswith(CUSTOMERS)]
        ((change,),) = (one.edits for one in own)
        end = lsp.Position(line, column + len("revenue"))
        assert (change.range, change.new_text) == (lsp.Range(place, end), "takings")

    scenario(test, shop.root)


def test_a_folder_that_is_a_link_is_named_as_the_client_opened_it(
    shop: ProjectFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("link") / "shop"
    link.symlink_to(shop.root)

    async def test(editor: Editor) -> None:
        await editor.open(CUSTOMERS)
        text = (shop.root / CUSTOMERS).read_text()
        editor.type(CUSTOMERS, text.replace("sum(amount)", "sum(amont)"))
        await editor.until(lambda: editor.said(CUSTOMERS))
        assert {one.uri for one in editor.published} == {editor.uri(CUSTOMERS)}

    scenario(test, link)


def test_a_model_is_completed_in_a_unit_test_from_behind_its_dot(shop: ProjectFolder) -> None:
    path, text = "tests/test_top.yaml", "test_top:\n  model: marts.to"
    shop.write(path, "test_top: {}\n")

    async def test(editor: Editor) -> None:
        await editor.open(path, text)
        end = lsp.Position(1, len("  model: marts.to"))
        wanted = lsp.CompletionParams(editor.document(path), end)
        (item,) = await editor.client.text_document_completion_async(wanted)
        begin = lsp.Position(1, len("  model: "))
        assert item.text_edit == lsp.TextEdit(lsp.Range(begin, end), "marts.top")

    scenario(test, shop.root)


def test_commands_tell_of_wrong_settings(shop: ProjectFolder) -> None:
    shop.write("pyproject.toml", "[tool.vde]\nnam = 'shop'\n")

    async def test(editor: Editor) -> None:
        for command in ("vde.plan", "vde.lineage"):
            with pytest.raises(JsonRpcException) as told:
                await editor.run(command, editor.uri(CUSTOMERS))
            assert told.value.code == REFUSED
            assert "unknown setting 'nam'" in told.value.message

    scenario(test, shop.root)


def test_a_query_ends_with_the_editor(shop: ProjectFolder) -> None:
    async def test() -> None:
        server, ended = make_server(shop.root), threading.Event()
        server.runner.interrupt = ended.set  # type: ignore[method-assign]
        server._queries.add(server._spark.submit(lambda: str(ended.wait(SECONDS))))
        await server.protocol.fm.features[lsp.SHUTDOWN](None)
        assert ended.is_set()

    asyncio.run(test())


def test_a_rename_of_a_text_that_changes_meanwhile_is_refused(shop: ProjectFolder) -> None:
    text = (shop.root / CUSTOMERS).read_text()
    before = text[: text.index("revenue")]
    place = lsp.Position(before.count("\n"), len(before.rpartition("\n")[2]))
    document = lsp.TextDocumentIdentifier((shop.root / CUSTOMERS).as_uri())
    server = make_server(shop.root)
    add_features(server)
    server.protocol._workspace = ClientWorkspace(shop.root.as_uri())
    server.protocol.client_capabilities = lsp.ClientCapabilities()
    rename = server.protocol.fm.features[lsp.TEXT_DOCUMENT_RENAME]

    async def test() -> None:
        wanted = lsp.RenameParams(document, place, "takings")
        edit = await rename(wanted)
        # This client has no versions of documents.
        assert document.uri in edit.changes
        assert edit.document_changes is None
        answer = asyncio.ensure_future(rename(wanted))
        await asyncio.sleep(0)
        server.session.set_text(CUSTOMERS, f"{text}-- A remark\n")
        with pytest.raises(JsonRpcException, match="changed meanwhile"):
            await answer
        server.close()

    asyncio.run(test())


def test_a_publication_elsewhere_is_seen(shop: ProjectFolder) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(CUSTOMERS)
        assert await editor.lenses(CUSTOMERS) == ["no plan: nothing is published yet"]
        with open_fake(shop.root) as workspace:
            workspace.apply(workspace.plan("prod"))
        end = asyncio.get_running_loop().time() + SECONDS
        while await editor.lenses(CUSTOMERS) != ["same as in prod"]:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.5)

    scenario(test, shop.root)


def test_the_root_may_be_named_by_the_workspaces_folders_alone(shop: ProjectFolder) -> None:
    async def test() -> None:
        async with editor(shop.root, only_folders=True) as it:
            await it.open(
                CUSTOMERS, "MODEL (name marts.customers); SELECT amont FROM staging.orders"
            )
            await it.until(lambda: it.said(CUSTOMERS))

    asyncio.run(test())


def test_of_edits_in_quick_succession_only_the_last_is_told(shop: ProjectFolder) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(CUSTOMERS)
        text = (shop.root / CUSTOMERS).read_text()
        for number in range(20):
            last = editor.type(CUSTOMERS, text.replace("sum(amount)", f"sum(wrong_{number})"))
        await editor.until(lambda: any("wrong_19" in said for said in editor.said(CUSTOMERS)))
        told = [one for one in editor.published if one.uri == editor.uri(CUSTOMERS)]
        wrong = [(one.version, d.message) for one in told for d in one.diagnostics]
        assert {version for version, message in wrong} == {last}
        assert all("wrong_19" in message for _, message in wrong)

    scenario(test, shop.root)


def test_files_of_the_folder_count_as_other_programs_write_them(shop: ProjectFolder) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(DAILY)
        file = shop.root / STAGING
        text = file.read_text()
        file.write_text(text.replace("amount, day", "day"))
        editor.files_changed(STAGING)
        await editor.until(lambda: editor.said(DAILY))
        file.unlink()
        editor.files_changed(STAGING)
        await editor.until(lambda: any("staging.orders" in one for one in editor.said(DAILY)))
        file.write_text(text)
        editor.files_changed(STAGING)
        await editor.until(lambda: not editor.said(DAILY))
        # A file that was closed without being saved is the folder's again.
        await editor.open(STAGING, text.replace("amount, day", "day"))
        await editor.until(lambda: editor.said(DAILY))
        editor.close(STAGING)
        await editor.until(lambda: not editor.said(DAILY))

    scenario(test, shop.root)


def test_python_runs_when_it_is_saved_and_prints_to_nobody(shop: ProjectFolder) -> None:
    model = """
from vde_dagster import model

print("noise on stdout")

@model(name="marts.coded", kind="FULL", columns={"a": "INT"})
def coded(context, **kwargs):
    return None
"""
    path, marker = "models/coded.py", shop.root / "ran"

    async def test(editor: Editor) -> None:
        await editor.open(path)
        editor.type(path, f"open({str(marker)!r}, 'w').close()\n{model}")
        editor.type(path, "import nothing_like_it\n")
        await editor.lenses(CUSTOMERS)
        assert not marker.exists()
        assert not editor.said(path)
        editor.save(path, "import nothing_like_it\n")
        await editor.until(lambda: editor.said(path))
        assert "nothing_like_it" in editor.said(path)[0]
        editor.save(path, model)
        await editor.until(lambda: not editor.said(path))

    (shop.root / path).write_text(model)
    scenario(test, shop.root)


def test_wrong_settings_are_said_and_everything_is_there_when_they_are_mended(
    shop: ProjectFolder,
) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(DAILY)
        settings = shop.root / "pyproject.toml"
        before = settings.read_text() if settings.exists() else ""
        settings.write_text("[tool.vde]\nnam = 'shop'\n")
        editor.files_changed("pyproject.toml")
        await editor.until(lambda: editor.said("pyproject.toml"))
        settings.write_text(before)
        editor.files_changed("pyproject.toml")
        await editor.until(lambda: not editor.said("pyproject.toml"))
        assert await editor.lenses(DAILY)

    scenario(test, shop.root)


def test_files_outside_of_the_project_are_left_alone(shop: ProjectFolder, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.sql"

    async def test(editor: Editor) -> None:
        document = lsp.TextDocumentItem(outside.as_uri(), "sql", 1, "SELEC")
        editor.client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))
        params = lsp.CodeLensParams(lsp.TextDocumentIdentifier(outside.as_uri()))
        assert not await editor.client.text_document_code_lens_async(params)
        assert not any(one.uri == outside.as_uri() for one in editor.published)

    scenario(test, shop.root)


def test_a_document_is_laid_out_as_the_formatter_does(shop: ProjectFolder) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(CUSTOMERS, "MODEL (name marts.customers);\nselect 1 as a,2 as b\n")
        params = lsp.DocumentFormattingParams(
            editor.document(CUSTOMERS), lsp.FormattingOptions(2, True)
        )
        (edit,) = await editor.client.text_document_formatting_async(params)
        assert "SELECT" in edit.new_text
        assert "1 AS a" in edit.new_text
        editor.type(CUSTOMERS, "MODEL (name marts.customers);\r\nselect 1 as a,2 as b\r\n")
        (crlf,) = await editor.client.text_document_formatting_async(params)
        assert crlf.new_text == edit.new_text.replace("\n", "\r\n")
        editor.type(CUSTOMERS, crlf.new_text)
        assert not await editor.client.text_document_formatting_async(params)

    scenario(test, shop.root)


def test_the_plan_of_the_texts_is_shown_as_a_report(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    before = (shop.root / ".vde" / "vde.db").read_bytes()

    async def test(editor: Editor) -> None:
        await editor.open(CUSTOMERS)
        text = (shop.root / CUSTOMERS).read_text()
        assert await editor.lenses(CUSTOMERS) == ["same as in prod"]
        editor.type(CUSTOMERS, text.replace("AS revenue", "AS revenue, count(*) AS orders"))
        (lens,) = await editor.lenses(CUSTOMERS)
        assert "orders" in lens
        report = await editor.run("vde.plan")
        assert "marts.customers" in report
        assert "orders" in report

    scenario(test, shop.root)
    assert (shop.root / ".vde" / "vde.db").read_bytes() == before, "an editor stores nothing"


def test_words_are_answered_for(shop: ProjectFolder) -> None:
    text = (shop.root / CUSTOMERS).read_text()
    line = text.splitlines().index(next(t for t in text.splitlines() if "SELECT" in t))

    def at(word: str) -> lsp.Position:
        return lsp.Position(line, text.splitlines()[line].index(word) + 1)

    async def test(editor: Editor) -> None:
        client, document = editor.client, editor.document(CUSTOMERS)
        await editor.open(CUSTOMERS)
        params = lsp.DefinitionParams(document, at("staging.orders"))
        (place,) = await client.text_document_definition_async(params)
        assert place.uri == editor.uri(STAGING)
        context = lsp.ReferenceContext(include_declaration=True)
        wanted = lsp.ReferenceParams(context, document, at("revenue"))
        found = await client.text_document_references_async(wanted)
        assert {one.uri for one in found} == {editor.uri(CUSTOMERS), editor.uri(TOP)}
        told = await client.text_document_hover_async(lsp.HoverParams(document, at("revenue")))
        assert "marts.customers.revenue" in told.contents.value
        renamed = lsp.RenameParams(document, at("revenue"), "takings")
        edit = await client.text_document_rename_async(renamed)
        places = [one.text_document for one in edit.document_changes]
        assert {one.uri: one.version for one in places} == {
            editor.uri(CUSTOMERS): 1,
            editor.uri(TOP): None,
        }
        with pytest.raises(JsonRpcException, match="renaming to 'customer'"):
            await client.text_document_rename_async(
                lsp.RenameParams(document, at("revenue"), "customer")
            )
        marks = await client.text_document_document_highlight_async(
            lsp.DocumentHighlightParams(document, at("revenue"))
        )
        assert len(marks) == 1
        picture = await editor.run("vde.lineage", editor.uri(CUSTOMERS))
        assert picture.startswith("<svg")
        assert "staging.orders" in picture
        assert "marts.top" in picture
        # While a text is half written: what may stand, and the cure for a slip of the keys.
        editor.type(CUSTOMERS, text.replace("customer, sum(amount)", "customer, sum(amo"))
        wanted = lsp.CompletionParams(document, lsp.Position(line, len("SELECT customer, sum(amo")))
        items = await client.text_document_completion_async(wanted)
        assert items[0].label == "amount"
        editor.type(CUSTOMERS, text.replace("sum(amount)", "sum(amont)"))
        await editor.until(lambda: any("amont" in said for said in editor.said(CUSTOMERS)))
        newest = [one for one in editor.published if one.uri == editor.uri(CUSTOMERS)][-1]
        asked = lsp.CodeActionContext(newest.diagnostics)
        place = newest.diagnostics[0].range
        (fix,) = await client.text_document_code_action_async(
            lsp.CodeActionParams(document, place, asked)
        )
        assert fix.title == "Write amount"
        (changed,) = fix.edit.document_changes
        (edit,) = changed.edits
        assert (changed.text_document.uri, edit.new_text) == (editor.uri(CUSTOMERS), "amount")
        assert changed.text_document.version == editor.versions[CUSTOMERS]
        assert edit.range == place

    scenario(test, shop.root)


def test_a_model_is_renamed_with_its_file(shop: ProjectFolder) -> None:
    async def test(editor: Editor) -> None:
        await editor.open(TOP)
        line = (shop.root / TOP).read_text().splitlines()
        row = next(n for n, text in enumerate(line) if "marts.customers" in text)
        at = lsp.Position(row, line[row].index("marts.customers") + 8)
        params = lsp.RenameParams(editor.document(TOP), at, "buyers")
        edit = await editor.client.text_document_rename_async(params)
        *texts, moved = edit.document_changes
        assert (moved.old_uri, moved.new_uri) == (
            editor.uri(CUSTOMERS),
            editor.uri(CUSTOMERS.replace("customers", "buyers")),
        )
        written = {one.text_document.uri: [e.new_text for e in one.edits] for one in texts}
        assert written == {editor.uri(p): ["marts.buyers"] for p in (CUSTOMERS, TOP)}

    scenario(test, shop.root)


@pytest.mark.spark
def test_what_stands_at_the_cursor_is_run_as_it_is_typed(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    text = (
        "MODEL (name marts.customers, kind FULL);\n"
        "WITH few AS (SELECT id AS customer, id * 1.5D AS revenue FROM range(3) AS r (id)),\n"
        "  most AS (SELECT max(revenue) AS most, 'a|b' AS text FROM few)\n"
        "SELECT few.customer, few.revenue FROM few, most WHERE revenue = most\n"
    )

    async def test(editor: Editor) -> None:
        await editor.open(CUSTOMERS)
        editor.type(CUSTOMERS, text)
        params = lsp.CodeLensParams(editor.document(CUSTOMERS))
        lenses = await editor.client.text_document_code_lens_async(params)
        runs = [one.command for one in lenses if one.command.command == "vde.run"]
        assert [one.title for one in runs] == [
            "run marts.customers",
            "run few of marts.customers",
            "run most of marts.customers",
        ]
        whole, few, most = [await editor.run("vde.run", *one.arguments) for one in runs]
        assert whole.splitlines()[2:5] == ["| customer | revenue |", "| --- | --- |", "| 2 | 3 |"]
        assert few.splitlines()[4:7] == ["| 0 | 0 |", "| 1 | 1.5 |", "| 2 | 3 |"]
        assert "| 3 | a\\|b |" in most
        short = await editor.run("vde.run", *runs[1].arguments, 2)
        assert "2 rows of `prod`; there may be more" in short
        editor.type(CUSTOMERS, text.replace("WITH few", "WITH (few"))
        with pytest.raises(JsonRpcException, match="mistake"):
            await editor.run("vde.run", editor.uri(CUSTOMERS), 1, 20)
        editor.type(CUSTOMERS, text.replace("id * 1.5D", "raise_error('no')"))
        with pytest.raises(JsonRpcException, match="no"):
            await editor.run("vde.run", editor.uri(CUSTOMERS), 1, 20)
        long = "range(0, 1000000000000, 1, 1) AS r (id) WHERE sqrt(id) * rand() < 0"
        editor.type(CUSTOMERS, text.replace("range(3) AS r (id)", long))
        asked = [
            asyncio.ensure_future(editor.run("vde.run", editor.uri(CUSTOMERS), 1, 20))
            for _ in range(2)
        ]
        await asyncio.sleep(4)
        await editor.run("vde.stop")
        for one in asked:
            with pytest.raises(JsonRpcException, match="the query was stopped"):
                await one
        editor.type(CUSTOMERS, text)
        assert await editor.run("vde.run", *runs[1].arguments) == few  # Its thread is free again.

    state = (shop.root / ".vde" / "vde.db").read_bytes()
    try:
        scenario(test, shop.root)
    finally:
        with Workspace.open(shop.root) as workspace:
            warm = SessionSettings.from_settings(workspace.settings).warm
        assert warm is not None
        stop_engines(warm.folder)
    assert (shop.root / ".vde" / "vde.db").read_bytes() == state, "an editor stores nothing"


def test_files_that_change_without_an_event_of_the_client_are_seen(shop: ProjectFolder) -> None:
    """A client may not watch files: `git checkout` in a terminal changes them unseen."""

    async def test(editor: Editor) -> None:
        await editor.open(DAILY)
        file = shop.root / STAGING
        text = file.read_text()
        assert await editor.lenses(DAILY)
        file.write_text(text.replace("amount, day", "day"))
        await editor.until(lambda: editor.said(DAILY))
        file.write_text(text)
        await editor.until(lambda: not editor.said(DAILY))

    scenario(test, shop.root)
