"""What a kind declares is what people, editors and readers of headers are told of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from vde_dagster.project.kinds import KINDS, kind_names
from vde_dagster.project.kinds.base import kind_schema
from vde_dagster.project.properties.model_properties import model_schema

ROOT = Path(__file__).parents[2]


def test_the_documentation_has_the_table_that_kinds_declare() -> None:
    text = (ROOT / "docs" / "models.md").read_text()
    table = text.partition("| kind | how its table is filled | properties |")[2].partition("\n\n")[
        0
    ]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    told = {name: (filled, re.findall(r"`(\w+)", names)) for name, filled, names in rows}
    assert told == {
        f"`{name}`": (kind.summary, [item.name for item in kind.properties])
        for name, kind in KINDS.by_name.items()
    }


def test_the_schema_has_every_kind_with_its_required_properties() -> None:
    schema = kind_schema()
    bare, *objects = schema["anyOf"]
    assert {item["properties"]["name"]["const"] for item in objects} == set(kind_names())
    assert "FULL" in bare["enum"]
    assert "SEED" not in bare["enum"]
    (key,) = [i for i in objects if i["properties"]["name"]["const"].endswith("UNIQUE_KEY")]
    assert key["required"] == ["name", "unique_key"]
    own = {"unique_key", "when_matched", "merge_filter", "refresh", "lookback", "batch_size"}
    own |= {"disable_restatement", "auto_restatement_cron"}
    own |= {"forward_only", "on_destructive_change", "on_additive_change"}
    assert set(key["properties"]) == {"name", *own}
    written = json.loads(json.dumps(model_schema()))["properties"]["kind"]
    assert written["anyOf"] == schema["anyOf"]


def test_every_field_of_a_kind_without_a_default_comes_from_a_required_property() -> None:
    import dataclasses

    for kind in KINDS.by_name.values():
        needed = {
            field.name
            for field in dataclasses.fields(kind)  # type: ignore[arg-type]
            if field.default is dataclasses.MISSING
        }
        assert needed <= {item.name for item in kind.properties if item.required}
