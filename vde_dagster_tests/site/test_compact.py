"""Scripts of a site: small, equal for equal documents, harmless, and with all that was said."""

import json
import zlib
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.base.secrets import forget_secrets, remember_secret
from vde_dagster.errors import UsageError
from vde_dagster.overviews.documentation.values import DocumentedExposure, FailedPlan
from vde_dagster.plugins.site.build import SHELL, site_files, write_site
from vde_dagster.plugins.site.compact import compact, script
from vde_dagster_tests.site.generated import generated

KB, MB = 1000, 1_000_000


def read(text: bytes) -> tuple[str, Any]:
    """Return the name and the value of a script."""
    called = text.decode()
    assert called.startswith("vde(")
    name, value = json.loads(f"[{called[4:-2]}]")
    return name, value


def values(scripts: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the values of scripts by name; all but the index are packed."""
    found = dict(read(text) for text in scripts.values())
    return {
        name: value if name == "index" else json.loads(zlib.decompress(b64decode(value)))
        for name, value in found.items()
    }


@given(st.text())
def test_no_text_ends_a_script_and_every_text_comes_back(text: str) -> None:
    made = script("part", [text]).decode()
    assert not {"<", ">", "\u2028", "\u2029"} & set(made)
    assert read(made.encode()) == ("part", [text])


def test_a_thousand_models_keep_the_budget() -> None:
    made = site_files(generated(1000))
    shell = sum(len(made[name]) for name in SHELL)
    sent = len(zlib.compress(b"".join(made[name] for name in SHELL)))
    data = sum(len(text) for name, text in made.items() if name not in SHELL)
    models = sum(len(text) for name, text in made.items() if "models-" in name)
    index = len(made["data/index.js"])
    assert sent <= 30 * KB
    assert shell <= 90 * KB
    assert (models + index) / 1000 <= 1.5 * KB
    assert shell + data <= 2 * MB


def test_equal_documents_give_equal_bytes() -> None:
    assert site_files(generated(60)) == site_files(generated(60))
    one = generated(60)
    other = replace(one, models=(replace(one.models[0], description="other"), *one.models[1:]))
    differing = {name for name, text in compact(one).items() if compact(other)[name] != text}
    assert differing == {"index"}


def test_what_a_document_says_of_a_model_is_in_its_script() -> None:
    document = generated(120, columns=6)
    made = values(compact(document))
    index = made["index"]
    number = 77
    model, details = document.models[number], made["models-1"][number - 50]
    listed = index["models"][number]
    words, names = index["words"], index["names"]
    assert names[number] == model.name
    assert (words[listed[0]], listed[1]) == (model.kind, model.description)
    assert [words[one] for one in listed[2]] == [column.name for column in model.columns]
    assert tuple(names[one] for one in listed[3]) == model.parents
    assert [words[one] for one in details["types"]] == [column.type for column in model.columns]
    assert details["source"] == model.source
    assert (words[listed[6]], [words[tag] for tag in listed[7]]) == (model.owner, [*model.tags])
    at, length = details["query"]
    assert " ".join(model.source[at : at + length].split()) == model.query
    told = {
        (pairs[pair], names[parent], pairs[pair + 1], words[how])
        for parent, how, pairs in details["flows"]
        for pair in range(0, len(pairs), 2)
    }
    places = {column.name: at for at, column in enumerate(model.columns)}
    assert told == {
        (0 if flow.column is None else 1 + places[flow.column], flow.parent,
         places[flow.source], flow.how)
        for flow in model.flows
    }  # fmt: skip
    inherited = [column for column in model.columns if column.inherited_from]
    assert inherited
    for column in inherited:
        said = details["said"][str(places[column.name])]
        assert said == [column.description, column.inherited_from]


def test_failures_are_listed_with_the_environments_that_show_the_rows() -> None:
    document = generated(3)
    table = document.tables[1]
    failed = replace(table.audits[0], failed_rows=7, plan="prod-29Nov-restate-1")
    table = replace(table, audits=(failed,))
    plan = FailedPlan("prod", "prod-29Nov-new-2", document.as_of, "marts.x failed")
    tables = (document.tables[0], table, document.tables[2])
    made = values(compact(replace(document, tables=tables, failures=(plan,))))
    at = int(failed.at.timestamp())
    assert made["index"]["failed_audits"] == [[1, failed.audit, 7, at, "prod-29Nov-restate-1", [0]]]
    assert made["index"]["failed_plans"] == [
        ["prod", "prod-29Nov-new-2", int(document.as_of.timestamp()), "marts.x failed"]
    ]
    (shown,) = made["models-0"][1]["tables"].values()
    assert shown["audits"] == [[failed.audit, int(failed.blocking), 7, at, "prod-29Nov-restate-1"]]
    assert values(compact(document))["index"]["failed_audits"] == []


def test_a_fill_without_figures_keeps_its_time() -> None:
    document = generated(1)
    table = document.tables[0]
    fill = replace(table.fills[0], rows=None, bytes=None, seconds=None, skipped=False, refresh=None)
    earlier = replace(fill, at=fill.at - timedelta(seconds=1))
    made = values(compact(replace(document, tables=(replace(table, fills=(fill, earlier)),))))
    (shown,) = made["models-0"][0]["tables"].values()
    assert [one[2:] for one in shown["fills"]] == [[int(fill.at.timestamp())], [-1]]


def test_secrets_are_masked_in_values_and_links_stay_whole() -> None:
    url = "https://bi.example/dash?id=5"
    sales = DocumentedExposure("sales", "exposure", None, url, (("m.a", None),), "for hush-hush")
    document = replace(generated(1), exposures=(sales,))
    remember_secret("hush-hush")
    remember_secret("names")
    try:
        made = {name: one for name, one in site_files(document).items() if name.startswith("data")}
    finally:
        forget_secrets()
    index = read(made["data/index.js"])[1]
    assert index["exposures"][0]["url"] == url
    assert index["exposures"][0]["said"] == "for ***"
    assert index["names"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://anna:hush@bi.example/dash?id=5", "https://anna:***@bi.example/dash?id=***"),
        ("https://bi.example/dash?token=hush", "https://bi.example/dash?token=***"),
        ("https://bi.example/#/dash?id=5&page=2", "https://bi.example/#/dash?id=5&page=2"),
        (None, None),
    ],
)
def test_a_link_with_a_secret_is_masked(url: str | None, shown: str | None) -> None:
    sales = DocumentedExposure("sales", "exposure", None, url, (("m.a", None),), None)
    made = values(compact(replace(generated(1), exposures=(sales,))))
    assert made["index"]["exposures"][0].get("url") == shown


def test_a_query_behind_characters_of_two_units_is_found_as_a_page_counts() -> None:
    document = generated(1, columns=2)
    model = replace(document.models[0], source="-- \U0001f600\nSELECT 1\n", query="SELECT 1")
    made = values(compact(replace(document, models=(model,))))
    assert made["models-0"][0]["query"] == [6, 8]


def test_large_snapshot_ids_and_what_a_document_does_not_have_are_kept_apart() -> None:
    document = generated(3)
    made = values(compact(document))
    cells = made["environments"]["cells"][0]
    assert [cell[8] for cell in cells] == [str(2**61 + number) for number in range(3)]
    alone = replace(document, environments=(), publications=(), tables=())
    bare = values(compact(alone))
    assert bare["index"]["environments"] == []
    assert "tables" not in bare["models-0"][0]


def test_a_site_takes_the_place_of_an_earlier_one_and_of_nothing_else(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_site(site_files(generated(120)), site)
    assert (site / "data" / "models-2.js").exists()
    made = site_files(generated(10))
    write_site(made, site)
    found = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert found == set(made)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="do not belong to a site"):
        write_site(made, other)
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]


def test_files_of_others_beside_the_scripts_stay(tmp_path: Path) -> None:
    made = site_files(generated(3))
    page = tmp_path / "page"
    (page / "data").mkdir(parents=True)
    (page / "data" / "index.js").write_text("export const rows = []")
    with pytest.raises(UsageError, match="do not belong to a site"):
        write_site(made, page)
    site = tmp_path / "site"
    write_site(made, site)
    (site / "data" / "thesis.csv").write_text("years of work")
    write_site(made, site)
    assert (site / "data" / "thesis.csv").exists()
