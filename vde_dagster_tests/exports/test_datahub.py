"""DataHub: what `vde describe datahub` writes, read by DataHub's own client."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest

os.environ["DATAHUB_TELEMETRY_ENABLED"] = "false"  # The client tells its makers of each call.

from click.testing import CliRunner
from datahub.cli.check_cli import check
from datahub.emitter.mce_builder import make_dataset_urn_with_platform_instance
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.ingestion.source.file import read_metadata_file
from datahub.metadata import schema_classes as aspects
from datahub.metadata.urns import DatasetUrn, SchemaFieldUrn, Urn

from vde_dagster.overviews.documentation.gather import gather_document
from vde_dagster.plugins.exports.datahub import datahub_proposals
from vde_dagster_tests.cli.conftest import Vde, vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, Prepared, ProjectFolder

pytestmark = pytest.mark.long

__all__ = ["vde"]

PARTS = {
    "external_models.yaml": """
        - name: crm.people
          columns: {id: INT, name: STRING}
    """,
    "models/staging/known.sql": """
        MODEL (name staging.known, kind EMBEDDED);
        SELECT customer AS id, upper(status) AS status,
          CAST(struct(amount, day) AS STRUCT<amount: DOUBLE, day: DATE>) AS paid
        FROM raw.orders WHERE amount > 0
    """,
    "models/marts/people.sql": """
        MODEL (name marts.people, kind VIEW, owner 'ann@example.com', tags ('pii', 'a,b'),
          grains (id), description 'Who they are',
          audits (forall(criteria := (id > 0)), not_null(columns := (id))));
        SELECT known.id, people.name, known.paid,
          CASE WHEN known.status = 'PAID' THEN people.name END AS payer
        FROM staging.known JOIN crm.people USING (id)
    """,
}


def publish(root: Path) -> None:
    found = ProjectFolder(root, {**SHOP, **PARTS})
    found.write("pyproject.toml", "[tool.vde]\nname = 'shop'\n")
    with open_fake(found.root) as workspace:
        workspace.apply(workspace.plan("prod"))


@pytest.fixture
def folder(prepared: Prepared) -> ProjectFolder:
    return prepared(publish)


def _read(path: Path) -> dict[str, dict[type, Any]]:
    """Return aspects by entity and class, as DataHub's client reads them."""
    found: dict[str, dict[type, Any]] = defaultdict(dict)
    for one in read_metadata_file(path):
        assert isinstance(one, MetadataChangeProposalWrapper), "an aspect that the client knows"
        assert one.validate()
        found[str(Urn.from_string(one.entityUrn))][type(one.aspect)] = one.aspect
    return found


def _written(vde: Vde, folder: ProjectFolder, *of: str) -> dict[str, dict[type, Any]]:
    target = folder.root.parent / "proposals.json"
    called = vde("describe", "datahub", *of, "--to", target, "--project", folder.root)
    assert called.code == 0, called.err
    checked = CliRunner().invoke(check, ["metadata-file", str(target)])
    assert checked.exit_code == 0, checked.output
    return _read(target)


def _urn(name: str, env: str = "PROD") -> str:
    return make_dataset_urn_with_platform_instance("iceberg", name, "shop", env)


def test_datahubs_client_reads_what_production_shows(folder: ProjectFolder, vde: Vde) -> None:
    found = _written(vde, folder)
    names = {DatasetUrn.from_string(one).name for one in found if "dataset:" in one}
    models = {"raw.orders", "staging.orders", "marts.daily", "marts.customers", "marts.top"}
    assert names == {f"shop.{one}" for one in (*models, "marts.people", "crm.people")}
    people = found[_urn("marts.people")]
    said = people[aspects.DatasetPropertiesClass]
    assert (said.name, said.qualifiedName, said.description) == (
        "people",
        "lakehouse.marts.people",
        "Who they are",
    )
    with open_fake(folder.root) as workspace:
        entry = workspace.store.environments.get("prod").entries
        ids = {str(name): one.snapshot_id for name, one in entry.items()}
    custom = said.customProperties
    assert (custom["snapshot"], custom["grain"]) == (ids["marts.people"], "id")
    assert custom["environment_version"] == "1"
    assert people[aspects.OwnershipClass].owners[0].owner == "urn:li:corpuser:ann@example.com"
    tags = [Urn.from_string(one.tag) for one in people[aspects.GlobalTagsClass].tags]
    assert len(tags) == 2
    assert "USING (id)" in people[aspects.ViewPropertiesClass].viewLogic
    fields = {one.fieldPath: one for one in people[aspects.SchemaMetadataClass].fields}
    assert {name: type(one.type.type).__name__ for name, one in fields.items()} == {
        "id": "NumberTypeClass",
        "name": "StringTypeClass",
        "paid": "RecordTypeClass",
        "payer": "StringTypeClass",
    }
    assert fields["id"].isPartOfKey
    top = found[_urn("marts.top")][aspects.SchemaMetadataClass]
    assert next(one for one in top.fields if one.fieldPath == "customer").description == (
        "Who ordered"
    ), "of the column that it is a copy of"


def test_lineage_looks_through_embedded_models(folder: ProjectFolder, vde: Vde) -> None:
    found = _written(vde, folder)
    lineage = found[_urn("marts.people")][aspects.UpstreamLineageClass]
    assert {one.dataset for one in lineage.upstreams} == {
        _urn("raw.orders"),
        _urn("crm.people"),
    }
    flows = set()
    for one in lineage.fineGrainedLineages:
        (into,) = one.downstreams
        for field in map(SchemaFieldUrn.from_string, one.upstreams):
            parent = DatasetUrn.from_string(field.parent).name
            column = SchemaFieldUrn.from_string(into).field_path
            flows.add((column, f"{parent}.{field.field_path}", one.transformOperation))
    assert flows == {
        ("id", "shop.raw.orders.customer", "IDENTITY"),
        ("name", "shop.crm.people.name", "IDENTITY"),
        ("paid", "shop.raw.orders.amount", "TRANSFORMATION"),
        ("paid", "shop.raw.orders.day", "TRANSFORMATION"),
        ("payer", "shop.crm.people.name", "TRANSFORMATION"),
        ("payer", "shop.raw.orders.status", "CONDITIONAL"),
    }
    for urn, said in found.items():
        if aspects.UpstreamLineageClass in said:
            parents = said[aspects.UpstreamLineageClass].upstreams
            assert {one.dataset for one in parents} <= found.keys(), urn


def test_audits_are_assertions_with_their_last_result(folder: ProjectFolder, vde: Vde) -> None:
    found = _written(vde, folder)
    told = {}
    for urn, said in found.items():
        if "assertion" in urn:
            info = said[aspects.AssertionInfoClass].datasetAssertion
            ran = said.get(aspects.AssertionRunEventClass)
            assert ran is None or (ran.assertionUrn, ran.asserteeUrn) == (urn, info.dataset)
            result = ran and ran.result.type
            told[info.nativeType] = (info.scope, info.operator, result)
    assert told["not_null(columns=(day, revenue))"] == ("DATASET_COLUMN", "NOT_NULL", "SUCCESS")
    assert told["unique_values(columns=(customer))"] == ("DATASET_COLUMN", "_NATIVE_", "SUCCESS")
    (view,) = (one for name, one in told.items() if name.startswith("forall"))
    assert view == ("DATASET_ROWS", "_NATIVE_", None), "results are those of tables"
    assert len(told) == 4


def test_environments_are_datasets_of_their_own(folder: ProjectFolder, vde: Vde) -> None:
    folder.edit("models/marts/customers.sql", "GROUP BY customer", "WHERE amount > 1 GROUP BY 1")
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("dev"))
        workspace.apply(workspace.plan("pr_7"))
    dev, other = _written(vde, folder, "dev"), _written(vde, folder, "pr_7")
    customers = dev[_urn("marts__dev.customers", "DEV")]
    assert "amount > 1" in customers[aspects.ViewPropertiesClass].viewLogic
    (read,) = customers[aspects.UpstreamLineageClass].upstreams
    assert read.dataset == _urn("staging__dev.orders", "DEV")
    assert _urn("marts__pr_7.customers", "NON_PROD") in other
    before = _written(vde, folder, "prod@1")[_urn("marts.customers")]
    assert "amount > 1" not in before[aspects.ViewPropertiesClass].viewLogic


def test_the_file_is_stable_and_others_may_read_it(folder: ProjectFolder, vde: Vde) -> None:
    target = folder.root.parent / "proposals.json"
    target.parent.chmod(0o755)
    mask = os.umask(0o022)
    try:
        assert vde("describe", "datahub", "--to", target, "--project", folder.root).code == 0
    finally:
        os.umask(mask)
    assert S_IMODE(target.stat().st_mode) == 0o644
    printed = vde("describe", "datahub", "prod", "--project", folder.root).out
    assert printed == target.read_text()
    with open_fake(folder.root) as workspace:
        proposals = datahub_proposals(gather_document(workspace, "prod"))
    assert json.loads(printed) == proposals


def test_json_is_one_object_with_the_list_of_the_file(folder: ProjectFolder, vde: Vde) -> None:
    called = ("describe", "datahub", "--project", folder.root)
    assert vde(*called, "--json").json == {"proposals": json.loads(vde(*called).out)}


def test_a_name_with_a_dot_and_a_quoted_column_are_one_name_each(tmp_path: Path, vde: Vde) -> None:
    audit = "not_null(columns := (`a b`))"
    model = f"MODEL (name marts.`daily.v1`, kind FULL, audits ({audit})); SELECT 1 AS `a b`"
    folder = ProjectFolder(tmp_path / "shop", {"models/daily.sql": model})
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    found = _written(vde, folder)
    daily = found[_urn("marts.daily.v1")]
    said = daily[aspects.DatasetPropertiesClass]
    assert (said.name, said.customProperties["kind"]) == ("daily.v1", "FULL")
    (field,) = daily[aspects.SchemaMetadataClass].fields
    (info,) = (one[aspects.AssertionInfoClass] for urn, one in found.items() if "assertion" in urn)
    (looked,) = map(SchemaFieldUrn.from_string, info.datasetAssertion.fields)
    assert looked.field_path == field.fieldPath == "a b"
