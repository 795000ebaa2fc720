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
from vde_dagster.programs.editor.desk import Desk
from vde_dagster.programs.editor.navigation import definitions, references, rename
from vde_dagster.programs.editor.reading import Reading, Span
from vde_dagster.programs.editor.running import at_cursor, runnable
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
    desk = Desk(tmp_path)
    desk.read()
    ((path, text),) = case["at"].items()
    offset = text.index("^")
    desk.change(path, text.replace("^", "", 1))
    symbols = desk.symbols()
    reading = symbols.reading
    if "definitions" in case:
        assert shown(reading, definitions(symbols, path, offset)) == case["definitions"]
    if "references" in case:
        assert shown(reading, references(symbols, path, offset)) == case["references"]
    if "refused" in case:
        with pytest.raises(UsageError, match=case["refused"]):
            rename(desk, symbols, path, offset, case["rename"])
    elif "rename" in case:
        edits = rename(desk, symbols, path, offset, case["rename"])
        after = {file: apply_edits(reading.text(file), edits[file]) for file in edits}
        assert after == case["renamed"]
    for what, expected in case.get("completions", {}).items():
        found = [one.label for one in completions(desk.glance(), path, offset)]
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
        call = signature(desk.glance(), path, offset)
        assert call is not None
        assert call.label == case["signature"]
        assert call.parameters[call.active] == case["active"]
    if "runs" in case:
        what = at_cursor(reading, path, offset)
        assert (what.title, what.query) == (case["runs"], case.get("query"))
        if what.query is not None:
            assert what in [one for _, one in runnable(reading, path)]
    if "told" in case:
        told = hover(symbols, path, offset)
        assert told is not None
        for part in case["told"]:
            assert part in told[1]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    root = tmp_path_factory.mktemp("words")
    ProjectFolder(root, EVERY)
    return Desk(root)


def test_a_use_is_among_the_uses_of_its_definition_and_a_rename_there_and_back_is_nothing(
    desk: Desk,
) -> None:
    symbols = desk.symbols()
    tried = 0
    for path, text in EVERY.items():
        for offset in range(len(text)):
            found = definitions(symbols, path, offset)
            uses = references(symbols, path, offset)
            for one in found:
                assert one in references(symbols, one.path, one.start)
            if not uses or offset != next(u.start for u in uses if u.path == path):
                continue
            try:
                there = rename(desk, symbols, path, offset, "quite_new")
            except UsageError:
                continue
            tried += 1
            for file, edits in there.items():
                made = apply_edits(symbols.reading.text(file), edits)
                assert "quite_new" in made
    assert tried > 10


@pytest.mark.proof
def test_at_no_place_of_any_text_cut_off_there_a_question_fails(desk: Desk) -> None:
    for path, text in EVERY.items():
        for end in range(len(text)):
            desk.change(path, text[:end])
            completions(desk.glance(), path, end)
            signature(desk.glance(), path, end)
            if end % 7 == 0:
                symbols = desk.symbols()
                definitions(symbols, path, end)
                hover(symbols, path, end)
        desk.change(path, None)


@pytest.mark.proof
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    path=st.sampled_from(sorted(EVERY)),
    cuts=st.tuples(st.integers(0, 400), st.integers(0, 400)),
    put=st.text(st.sampled_from(list("(),.;'\"`@* \n{}ax1")), max_size=6),
    at=st.integers(0, 400),
)
def test_no_question_fails_on_damaged_texts(
    desk: Desk, path: str, cuts: tuple[int, int], put: str, at: int
) -> None:
    text = EVERY[path]
    begin, end = sorted(min(cut, len(text)) for cut in cuts)
    damaged = f"{text[:begin]}{put}{text[end:]}"
    offset = min(at, len(damaged))
    desk.change(path, damaged)
    try:
        completions(desk.glance(), path, offset)
        signature(desk.glance(), path, offset)
        symbols = desk.symbols()
        runnable(symbols.reading, path)
        definitions(symbols, path, offset)
        references(symbols, path, offset)
        hover(symbols, path, offset)
    finally:
        desk.change(path, None)


def test_the_command_says_how_to_install_what_the_server_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="`vde lsp` needs the package pygls") as raised:
        command.lsp_command()
    assert "[editor]'" in str(raised.value.hint)
