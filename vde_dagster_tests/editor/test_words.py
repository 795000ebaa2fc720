"""What the editor knows of words: definitions, uses, renames that change nothing, completions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vde_dagster.errors import UsageError
from vde_dagster.execution.project_files.fixing import fix_edits
from vde_dagster.programs.editor import command
from vde_dagster.programs.editor.navigation import find_definitions, find_references, rename_symbol
from vde_dagster.programs.editor.reading import Reading, Span
from vde_dagster.programs.editor.running import find_runnable_queries, query_at_cursor
from vde_dagster.programs.editor.session import EditorSession
from vde_dagster.programs.editor.words.completion import completions
from vde_dagster.programs.editor.words.hover import hover
from vde_dagster.programs.editor.words.signatures import signature
from vde_dagster.sql.edits import apply_edits
from vde_dagster_tests.projects import ProjectFolder

FIXTURE = Path(__file__).parent.parent / "fixtures" / "editor" / "words.yaml"
GIVEN = yaml.safe_load(FIXTURE.read_text(encoding="utf-8"))
FILES: dict[str, str] = GIVEN["files"]
EVERY: dict[str, str] = {**FILES, **GIVEN["with_yaml"]}


def shown(reading: Reading, spans: list[Span]) -> list[str]:
    return [f"{span.path} {reading.text(span.path)[span.start : span.end]}" for span in spans]


@pytest.mark.parametrize("case", GIVEN["cases"], ids=lambda case: case["name"])
def test_words(case: dict[str, Any], tmp_path: Path) -> None:
    ProjectFolder(tmp_path, {**FILES, **case.get("files", {})})
    session = EditorSession(tmp_path)
    session.read()
    ((path, text),) = case["at"].items()
    offset = text.index("^")
    session.set_text(path, text.replace("^", "", 1))
    symbols = session.symbols()
    reading = symbols.reading
    if "definitions" in case:
        assert shown(reading, find_definitions(symbols, path, offset)) == case["definitions"]
    if "references" in case:
        assert shown(reading, find_references(symbols, path, offset)) == case["references"]
    if "refused" in case:
        with pytest.raises(UsageError, match=case["refused"]):
            rename_symbol(session, symbols, path, offset, case["rename"])
    elif "rename" in case:
        edits = rename_symbol(session, symbols, path, offset, case["rename"])
        after = {file: apply_edits(reading.text(file), edits[file]) for file in edits}
        assert after == case["renamed"]
    for what, expected in case.get("completions", {}).items():
        found = [one.label for one in completions(session.last_reading(), path, offset)]
        if what == "all":
            assert found == expected
        elif what == "first":
            assert found[0] == expected
        else:
            assert set(expected) <= set(found)
    if "fixes" in case:
        fixes = {fix.title: (fix, one.location) for one in reading.problems for fix in one.fixes}
        assert sorted(fixes) == sorted(case["fixes"])
        for title, mended in case["fixes"].items():
            edits = fix_edits(*fixes[title], reading.text)
            assert edits is not None
            assert {f: apply_edits(reading.text(f), edits[f]) for f in edits} == {path: mended}
    if "signature" in case:
        call = signature(session.last_reading(), path, offset)
        assert call is not None
        assert call.label == case["signature"]
        assert call.parameters[call.active] == case["active"]
    if "runs" in case:
        what = query_at_cursor(reading, path, offset)
        assert (what.title, what.query) == (case["runs"], case.get("query"))
        if what.query is not None:
            assert what in [one for _, one in find_runnable_queries(reading, path)]
    if "told" in case:
        told = hover(symbols, path, offset)
        assert told is not None
        for part in case["told"]:
            assert part in told[1]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> EditorSession:
    root = tmp_path_factory.mktemp("words")
    ProjectFolder(root, EVERY)
    return EditorSession(root)


def test_a_use_is_among_the_uses_of_its_definition_and_a_rename_there_and_back_is_nothing(
    session: EditorSession,
) -> None:
    symbols = session.symbols()
    tried = 0
    for path, text in EVERY.items():
        for offset in range(len(text)):
            found = find_definitions(symbols, path, offset)
            uses = find_references(symbols, path, offset)
            for one in found:
                assert one in find_references(symbols, one.path, one.start)
            if not uses or offset != next(u.start for u in uses if u.path == path):
                continue
            try:
                there = rename_symbol(session, symbols, path, offset, "quite_new")
            except UsageError:
                continue
            tried += 1
            for file, edits in there.items():
                made = apply_edits(symbols.reading.text(file), edits)
                assert "quite_new" in made
    assert tried > 10


@pytest.mark.proof
def test_at_no_place_of_any_text_cut_off_there_a_question_fails(session: EditorSession) -> None:
    for path, text in EVERY.items():
        for end in range(len(text)):
            session.set_text(path, text[:end])
            completions(session.last_reading(), path, end)
            signature(session.last_reading(), path, end)
            if end % 7 == 0:
                symbols = session.symbols()
                find_definitions(symbols, path, end)
                hover(symbols, path, end)
        session.set_text(path, None)


@pytest.mark.proof
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    path=st.sampled_from(sorted(EVERY)),
    cuts=st.tuples(st.integers(0, 400), st.integers(0, 400)),
    put=st.text(st.sampled_from(list("(),.;'\"`@* \n{}ax1")), max_size=6),
    at=st.integers(0, 400),
)
def test_no_question_fails_on_damaged_texts(
    session: EditorSession, path: str, cuts: tuple[int, int], put: str, at: int
) -> None:
    text = EVERY[path]
    begin, end = sorted(min(cut, len(text)) for cut in cuts)
    damaged = f"{text[:begin]}{put}{text[end:]}"
    offset = min(at, len(damaged))
    session.set_text(path, damaged)
    try:
        completions(session.last_reading(), path, offset)
        signature(session.last_reading(), path, offset)
        symbols = session.symbols()
        find_runnable_queries(symbols.reading, path)
        find_definitions(symbols, path, offset)
        find_references(symbols, path, offset)
        hover(symbols, path, offset)
    finally:
        session.set_text(path, None)


def test_the_command_says_how_to_install_what_the_server_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="`vde lsp` needs the package pygls") as raised:
        command.lsp_command()
    assert "[editor]'" in str(raised.value.hint)
