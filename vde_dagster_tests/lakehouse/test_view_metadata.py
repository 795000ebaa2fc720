"""View metadata as the Iceberg specification has it."""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.view.metadata import ViewMetadata

from vde_dagster.lakehouse.metadata.view_metadata import definition_hash, new_view_metadata
from vde_dagster_tests.state.builders import view


def test_metadata_is_valid_and_says_everything() -> None:
    made = new_view_metadata(view("v"), None, "file:///w/v", 1_000)
    parsed = ViewMetadata.model_validate(made)
    assert parsed.location == "file:///w/v"
    (version,) = parsed.versions
    assert [r.root.dialect for r in version.representations] == ["spark", "trino"]
    assert parsed.properties == {
        "comment": "about it",
        "spark.query-column-names": "a",
        "vde.snapshot": "s1",
    }
    assert parsed.schemas[0].fields[0].doc == "the a"


def test_replaced_view_keeps_its_identity_and_history() -> None:
    first = new_view_metadata(view("v"), None, "file:///w/v", 1_000)
    second = new_view_metadata(
        view("v", "SELECT 2 AS b", columns=[("b", "INT", None)], trino=None), first, "other", 900
    )
    assert second["view-uuid"] == first["view-uuid"]
    assert second["location"] == "file:///w/v"
    assert second["current-version-id"] == 2
    assert [e["version-id"] for e in second["version-log"]] == [1, 2]
    assert [e["timestamp-ms"] for e in second["version-log"]] == [1_000, 1_000]
    assert len(second["schemas"]) == 2


def test_going_back_to_an_old_definition_is_its_old_version_again() -> None:
    first = new_view_metadata(view("v"), None, "l", 1_000)
    second = new_view_metadata(view("v", "SELECT 2 AS a"), first, "l", 2_000)
    third = new_view_metadata(view("v"), second, "l", 3_000)
    assert third["current-version-id"] == 1
    assert [e["version-id"] for e in third["version-log"]] == [1, 2, 1]
    assert len(third["versions"]) == 2


def test_history_is_bounded_and_keeps_the_current_version() -> None:
    metadata = new_view_metadata(view("v", "SELECT 0 AS a"), None, "l", 0)
    for number in range(1, 30):
        metadata = new_view_metadata(view("v", f"SELECT {number} AS a"), metadata, "l", number)
    assert len(metadata["versions"]) == 10
    assert metadata["current-version-id"] == 30
    kept = {version["version-id"] for version in metadata["versions"]}
    assert {entry["version-id"] for entry in metadata["version-log"]} == kept
    ViewMetadata.model_validate(metadata)


def test_changed_properties_alone_make_no_new_version() -> None:
    first = new_view_metadata(view("v"), None, "l", 1_000)
    first["properties"]["set.by.others"] = "kept"
    second = new_view_metadata(view("v", snapshot_id="s2", comment=None), first, "l", 2_000)
    assert second["versions"] == first["versions"]
    assert second["version-log"] == first["version-log"]
    assert second["properties"] == {
        "set.by.others": "kept",
        "spark.query-column-names": "a",
        "vde.snapshot": "s2",
    }


def test_what_the_author_no_longer_sets_goes_and_what_others_set_stays() -> None:
    names = '["team", "tier"]'
    had = (("team", "a"), ("tier", "1"), ("vde.virtual-properties", names))
    first = new_view_metadata(replace(view("v"), properties=had), None, "l", 1)
    first["properties"]["theirs"] = "x"
    has = (("team", "b"), ("vde.virtual-properties", '["team"]'))
    second = new_view_metadata(replace(view("v"), properties=has), first, "l", 2)
    assert second["properties"].keys() & {"team", "tier", "theirs"} == {"team", "theirs"}
    assert second["properties"]["team"] == "b"
    third = new_view_metadata(view("v"), second, "l", 3)
    assert third["properties"].keys() & {"team", "tier", "theirs"} == {"theirs"}


def test_hash_tells_every_difference_apart() -> None:
    base = view("v")
    others = [
        view("w"),
        view("v", "SELECT 3"),
        view("v", trino=None),
        view("v", comment=None),
        view("v", snapshot_id="s2"),
        view("v", columns=[("a", "BIGINT", "the a")]),
        view("v", columns=[("a", "INT", None)]),
        replace(base, query_columns=("x",)),
        replace(base, namespace="db2"),
    ]
    assert len({definition_hash(item) for item in [base, *others]}) == len(others) + 1
    assert definition_hash(base) == definition_hash(view("v"))


def test_what_was_published_before_keeps_its_hash() -> None:
    """Figures of the code in which `spark` and `trino` were two fields: no view is written anew."""
    assert definition_hash(view("v")) == "f08bbc22c0c4e3e2dfc677084db6dbae"
    assert definition_hash(view("v", trino=None)) == "3e35e8af0db53e30c836aa9947b0e776"


def test_a_further_dialect_is_a_further_representation() -> None:
    two = view("v")
    three = replace(two, queries={**two.queries, "duckdb": "SELECT a FROM t"})
    other = replace(two, queries={**two.queries, "duckdb": "SELECT b FROM t"})
    assert len({definition_hash(each) for each in (two, three, other)}) == 3
    (version,) = new_view_metadata(three, None, "file:///w/v", 1_000)["versions"]
    assert [r["dialect"] for r in version["representations"]] == ["spark", "trino", "duckdb"]
