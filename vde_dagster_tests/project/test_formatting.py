"""Laying SQL out: what comes of it is data, and no word is another afterwards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlglot import tokenize
from sqlglot.tokens import TokenType

from vde_dagster.project.formatting.files import format_source, format_text
from vde_dagster.project.settings import LayoutOptions, Settings
from vde_dagster.sql.scanner import SourceText
from vde_dagster_tests.yaml_files import read_yaml

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = read_yaml(FIXTURES / "layout.yaml")
FILE = Path("models/m.sql")
OPTIONS = LayoutOptions()
_AS_WRITTEN = (TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.VAR)


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_what_comes_of_a_statement_and_nothing_more_comes_of_that(case: dict[str, Any]) -> None:
    options = LayoutOptions(**case.get("options", {}))
    once = format_source(SourceText(FILE, case["before"]), "spark", options)
    assert once == case["after"]
    assert format_source(SourceText(FILE, once), "spark", options) == once


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.lstrip().upper().startswith(("SELECT", "WITH", "MODEL", "AUDIT", "(", "/*", "--")):
            yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _corpus() -> list[str]:
    """All queries and models of the fixtures."""
    texts = [path.read_text() for path in FIXTURES.glob("sqlmesh_project/**/*.sql")]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    folders = FIXTURES, FIXTURES / "semantics", FIXTURES / "planning", FIXTURES.parent / "planning"
    for path in (path for folder in folders for path in sorted(folder.glob("*.yaml"))):
        texts += _texts(list(yaml.load_all(path.read_text(), loader)))
    return texts


def _words(text: str) -> tuple[list[tuple[TokenType, str]], Counter[str]]:
    """What SQLGlot reads, in order, and the comments, which may stand elsewhere."""
    tokens = tokenize(text, read="spark")
    words = [
        (one.token_type, one.text if one.token_type in _AS_WRITTEN else one.text.upper())
        for one in tokens
    ]
    return words, Counter(said.strip() for one in tokens for said in one.comments)


@pytest.mark.proof
def test_every_query_of_the_fixtures_keeps_its_words_and_is_laid_out_once(tmp_path: Path) -> None:
    settings, corpus = Settings(tmp_path), _corpus()
    assert len(corpus) > 500
    narrow = LayoutOptions(max_text_width=20, leading_comma=True, keywords=False)
    for number, text in enumerate(corpus):
        options = narrow if number % 2 else OPTIONS
        once = format_text(FILE, text, settings, options)
        assert once is not None
        assert _words(once) == _words(re.sub("^model ", "MODEL ", text)), text
        assert format_text(FILE, once, settings, options) == once, text


def test_a_file_whose_properties_say_so_is_left_alone(tmp_path: Path) -> None:
    never = Settings(tmp_path, model_defaults={"formatting": False})
    for text, settings, wanted in (
        ("MODEL (name a.b, formatting false); SELECT 1", Settings(tmp_path), False),
        ("MODEL (name a.b, formatting true); SELECT 1", never, True),
        ("MODEL (name a.b); SELECT 1", never, False),
        ("MODEL (name a.b); SELECT 'formatting false'", Settings(tmp_path), True),
    ):
        assert (format_text(FILE, text, settings, OPTIONS) is not None) is wanted, text
