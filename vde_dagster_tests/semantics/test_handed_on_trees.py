"""The tree that loading hands on means what the stored text means, read again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import VdeError
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.reading.rendering import render
from vde_dagster.project.table_names import TableNames
from vde_dagster.semantics.analysis import Analysis, analyze
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.versions.version import leaf_version
from vde_dagster.sql.scanner import SourceText
from vde_dagster_tests.semantics import corpus, random_queries
from vde_dagster_tests.semantics.mutations import mutate
from vde_dagster_tests.semantics.test_cases import FIXTURES, SCHEMA
from vde_dagster_tests.yaml_files import read_yaml

Schema = Mapping[str, Mapping[str, str]]


def _texts(case: Any) -> Iterator[str]:
    """Every query of a fixture."""
    if isinstance(case, str) and case.lstrip("( \n").upper().startswith(("SELECT", "WITH", "FROM")):
        yield case
    elif isinstance(case, list | dict):
        for item in case.values() if isinstance(case, dict) else case:
            yield from _texts(item)


def _both(text: str, schema: Schema) -> tuple[Analysis, Analysis] | None:
    """Read a query as loading and planning do, and its stored text again; None if it is wrong."""
    known = {name if "." in name else f"main.{name}": types for name, types in schema.items()}
    parents = {name: leaf_version(name, types) for name, types in known.items()}
    expander = Expander(SourceText(Path("m.sql"), text), MacroScope({}, {}))
    try:
        rendered = render(expander, expander.expand(0, len(text)), TableNames("lakehouse", "main"))
        again = analyze(rendered.sql, known, parents=parents)
    except VdeError:
        return None
    return analyze(rendered.sql, known, parents=parents, tree=rendered.tree), again


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_fixture_is_read_alike_from_its_tree(path: Path) -> None:
    texts = list(_texts(read_yaml(path)))

    found = [both for text in texts if (both := _both(text, SCHEMA)) is not None]

    for handed, again in found:
        assert handed == again
    python = path.stem.startswith("python")
    assert python or path.stem in ("errors", "schema") or len(found) > 0.9 * len(texts)


@pytest.mark.parametrize("name", corpus.QUERIES)
def test_realistic_queries_are_read_alike_from_their_trees(name: str) -> None:
    both = _both(corpus.QUERIES[name] + " -- with a comment", corpus.SCHEMA)

    assert both is not None
    assert both[0] == both[1]
    assert both[0].version.opaque is None


@pytest.mark.proof
def test_random_queries_are_read_alike_from_their_trees() -> None:
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    read = 0
    for _ in range(150):
        text, _ = random_queries.Queries(rng).query()
        edited = mutate(text, rng)
        for query in (text, edited[1] if edited else text):
            both = _both(query, random_queries.SCHEMA)
            if both is not None:
                read += 1
                assert both[0] == both[1], f"seed {seed}: {query}"
    assert read > 200, f"seed {seed}"


def test_a_mistake_is_found_at_its_place_in_the_text() -> None:
    text = "SELECT id,\n  -- the next one is wrong\n  nothing FROM orders"
    expander = Expander(SourceText(Path("m.sql"), text), MacroScope({}, {}))
    rendered = render(expander, expander.expand(0, len(text)), TableNames("lakehouse", "main"))

    with pytest.raises(SemanticError) as caught:
        analyze(rendered.sql, {"main.orders": {"id": "INT"}}, tree=rendered.tree)

    assert (caught.value.line, caught.value.column) == (1, rendered.sql.index("nothing") + 1)
