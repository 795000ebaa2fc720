"""Queries that macros write whole, as cases in YAML; and models that are made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.known_columns import KnownColumns
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.scanner import SourceText
from vde_dagster_tests.duck import empty_duckdb
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.vault.tables import Query, read_queries, run, values_of

QUERIES = read_queries("generated.yaml")


@pytest.mark.parametrize("case", QUERIES, ids=lambda case: case.name.replace(" ", "_"))
def test_a_generated_query_has_the_expected_rows(case: Query) -> None:
    with empty_duckdb() as database:
        for name, (types, rows) in case.tables.items():
            run(database, f"CREATE TABLE {name} AS {values_of(types, rows)}")
        found = sorted(run(database, case.expanded), key=repr)
        assert [column[0] for column in database.description] == list(case.columns)
        assert found == sorted(run(database, case.wanted), key=repr)


@pytest.mark.parametrize("variables", [{}, {"vault_hash": "sha1", "vault_compat": "automate_dv"}])
def test_a_hashdiff_of_all_columns_but_some_is_that_of_the_others(
    variables: dict[str, str],
) -> None:
    """The source's columns count, as AutomateDV's `exclude_columns` has it, with derived values."""
    types = {"code": "string", "number": "int", "note": "string", "rsrc": "string"}
    known = KnownColumns({ModelName("v", "crm"): types})
    scope = MacroScope(variables, {}, names=TableNames("c", "v"), known_columns=known)

    def written(rest: str) -> str:
        text = f"@STAGE(crm, derived := (now() AS ldts, 'x' AS rsrc), {rest})"
        return Expander(SourceText(Path("m.sql"), text), scope).expand(whole=True).text

    for left_out, others in (
        ("code, rsrc", "number, note"),
        ("NUMBER", "rsrc, note, code"),
        ("", "code, note, number, rsrc"),
    ):
        every = written(f"hashdiffs := (ALL_EXCEPT({left_out}) AS hashdiff)")
        listed = written(f"hashed := (@HASHDIFF({others}) AS hashdiff)")
        assert every.replace("`", "") == listed.replace("`", "")
    both = written("hashdiffs := (ALL_EXCEPT(code) AS a, ALL_EXCEPT(note) AS b)")
    assert both.count(" AS `a`") == both.count(" AS `b`") == 1


VAULT = {
    "external_models.yaml": """
        - {name: crm.customers, columns: {id: int, name: string, phone: string, at: timestamp}}
        - {name: crm.days, columns: {as_of: date}}
    """,
    "models/stage.sql": """
        MODEL (name staging.customers, kind VIEW);
        @STAGE(crm.customers, columns := (id, name, phone), derived := (at AS ldts, 'crm' AS rsrc),
          hashed := (@HASH_KEY(id) AS customer_hk))
    """,
    "models/hub.sql": """
        MODEL (name vault.hub_customer, kind HUB (key customer_hk), start '2024-01-01');
        SELECT customer_hk, id, ldts, rsrc FROM staging.customers
        WHERE ldts BETWEEN @start_dt AND @end_dt
    """,
    "models/names.sql": """
        MODEL (name vault.sat_name, kind SATELLITE (key customer_hk), start '2024-01-01');
        SELECT customer_hk, name, ldts, rsrc FROM staging.customers
        WHERE ldts BETWEEN @start_dt AND @end_dt
    """,
    "models/phones.sql": """
        MODEL (name vault.sat_phone, start '2024-01-01',
          kind MULTI_ACTIVE_SATELLITE (key customer_hk, set_key phone));
        SELECT customer_hk, phone, ldts, rsrc FROM staging.customers
        WHERE ldts BETWEEN @start_dt AND @end_dt
    """,
    "models/seen.sql": """
        MODEL (name vault.seen_customer, start '2024-01-01',
          kind RECORD_TRACKING (key customer_hk));
        SELECT * FROM (
          @STAGE(crm.customers, columns := (), derived := (id AS id, at AS ldts, 'crm' AS rsrc),
            hashed := (@HASH_KEY(id) AS customer_hk))
        ) WHERE ldts BETWEEN @start_dt AND @end_dt
    """,
    "models/pit.sql": """
        MODEL (name vault.pit_customer, start '2024-01-01',
          kind INCREMENTAL_BY_TIME_RANGE (time_column as_of));
        @PIT(vault.hub_customer, customer_hk,
          (SELECT as_of FROM crm.days WHERE as_of BETWEEN @start_date AND @end_date),
          vault.sat_name, vault.sat_phone)
    """,
    "models/bridge.sql": """
        MODEL (name vault.bridge_customer, kind FULL);
        @BRIDGE(vault.hub_customer, customer_hk, crm.days,
          (vault.phone_times, customer_hk, phone, end_ldts))
    """,
    "models/ends.sql": "MODEL (name vault.name_ends); @END_DATED(vault.sat_name, customer_hk)",
    "models/times.sql": """
        MODEL (name vault.phone_times);
        @EFFECTIVITY(vault.sat_phone, customer_hk, phone)
    """,
    "models/ghost.sql": "MODEL (name vault.names); @WITH_GHOST(vault.sat_name, customer_hk)",
    "models/last.sql": """
        MODEL (name vault.customers);
        @LAST_SEEN(vault.hub_customer, vault.seen_customer, customer_hk)
    """,
}
GENERATED = {
    "pit_customer": [
        "as_of",
        "customer_hk",
        "sat_name_customer_hk",
        "sat_name_ldts",
        "sat_phone_customer_hk",
        "sat_phone_ldts",
    ],
    "bridge_customer": ["as_of", "customer_hk", "phone"],
    "name_ends": ["customer_hk", "name", "ldts", "rsrc", "end_ldts"],
    "phone_times": ["customer_hk", "phone", "ldts", "rsrc", "end_ldts"],
    "names": ["customer_hk", "name", "ldts", "rsrc"],
    "customers": ["customer_hk", "id", "ldts", "rsrc", "last_seen"],
}


def _snapshots(folder: ProjectFolder) -> dict[str, Snapshot]:
    made = build_snapshots(load_project(folder.root).models, lambda name: None, warnings=[])
    return {one.name.name: one for one in made.values()}


def test_what_is_generated_is_an_ordinary_model_with_versions_and_lineage(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, VAULT)
    before = _snapshots(folder)
    for name, columns in GENERATED.items():
        assert [column.name for column in before[name].columns] == columns
        assert before[name].version.opaque is None, name
    read = {(one.parent, one.column) for one in before["pit_customer"].reads}
    assert ("vault.sat_name", "ldts") in read
    assert ("vault.sat_name", "name") not in read

    # An attribute of a satellite is read where it is shown, and nowhere else.
    folder.edit("models/names.sql", "name, ldts", "UPPER(name) AS name, ldts")
    after = _snapshots(folder)
    changed = {name for name in GENERATED if before[name].id != after[name].id}
    assert changed >= {"name_ends", "names"}
    assert not changed & {"phone_times", "customers"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("@PIT(vault.hub_customer, customer_hk, crm.days)", "@PIT needs a satellite"),
        ("@PIT(vault.hub, hk, crm.days, a.sat, b.sat)", "@PIT has two satellites 'sat'"),
        ("@PIT(vault.hub, hk, crm.days, (a.sat, n, m))", "@PIT cannot read the satellite"),
        ("@BRIDGE(vault.hub, hk, crm.days, (vault.link, hk))", "@BRIDGE starts from one key"),
        ("@STAGE(crm.customers, derived := (UPPER(name)))", "in 'derived' has no name"),
        ("@STAGE(crm.customers, null_required := nam)", "'nam' in null_required does not exist"),
        (
            "@STAGE(crm.customers, null_optional := at)",
            "of type TIMESTAMP, which has no value '-2'",
        ),
        (
            "@STAGE(crm.customers, null_optional := id, null_required := (name, id))",
            "@STAGE has 'id' twice in null_required and null_optional",
        ),
        (
            "@STAGE(crm.customers, hashdiffs := (@HASHDIFF(name) AS h))",
            "cannot read .* 'hashdiffs'",
        ),
        (
            "@STAGE(crm.customers, hashdiffs := (ALL_EXCEPT(nam) AS h))",
            "lacks the column 'nam' in ALL",
        ),
        (
            "@STAGE(crm.customers, hashdiffs := (ALL_EXCEPT(id, name, phone, at) AS h))",
            "no column is left for h",
        ),
        ("@STAGE(crm.customers, ranked := (RANK() OVER (ORDER BY id)))", "in 'ranked' has no name"),
        (
            "@BRIDGE(vault.hub, hk, crm.days, (vault.l, hk, o), link_keys := (a, b))",
            "1 links and 2 link_keys",
        ),
        (
            "@BRIDGE(vault.hub, hk, crm.days, (a.l, child, parent), (a.l, child, parent))",
            "@BRIDGE has two columns 'parent'",
        ),
        ("@WITH_GHOST(vault.hub_customer, id, time_type := 'day')", "time_type cannot be 'day'"),
        ("@STAGE(crm.nothing)", "the columns of crm.nothing are not known"),
    ],
)
def test_a_wrong_call_gives_file_line_and_hint(tmp_path: Path, query: str, message: str) -> None:
    folder = ProjectFolder(tmp_path, VAULT)
    folder.write("models/pit.sql", f"MODEL (name vault.pit_customer, kind FULL);\n{query}")
    with pytest.raises(ProjectError, match=message) as raised:
        load_project(folder.root)
    assert raised.value.location is not None, str(raised.value)
    assert (raised.value.location.path.name, raised.value.location.line) == ("pit.sql", 2)
    assert raised.value.hint
