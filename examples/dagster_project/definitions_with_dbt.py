"""The code location of `definitions.py` with the assets of another dbt project, by dagster-dbt.

    pip install 'dagster-dbt[dbt-core]' dbt-duckdb   # or another adapter
    dbt parse --project-dir DIR
    OTHER_DBT_PROJECT=DIR dagster dev -f definitions_with_dbt.py

The other project runs on its own engine. A dbt model reads a model of vde as a dbt source; the key
of the source's asset, `meta: {dagster: {asset_key: [marts, daily_revenue]}}`, connects both.
"""

import os
from pathlib import Path

import dagster as dg
from dagster_dbt import DbtCliResource, dbt_assets
from definitions import defs as own_definitions

OTHER = Path(os.environ["OTHER_DBT_PROJECT"])


@dbt_assets(manifest=OTHER / "target" / "manifest.json")
def other_project(context: dg.AssetExecutionContext, dbt: DbtCliResource):
    """Models of the other project."""
    yield from dbt.cli(["build"], context=context).stream()


others = dg.Definitions(
    assets=[other_project], resources={"dbt": DbtCliResource(project_dir=str(OTHER))}
)
defs = dg.Definitions.merge(own_definitions, others)
