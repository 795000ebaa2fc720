"""How large each benchmark is run by `python -m benchmarks`, and what some need from outside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """How the runner calls a benchmark.

    Args:
        quick: Its arguments with `--quick`: a minute or less, to see that it works.
        usual: Its arguments else; most have their own defaults.
        needs: The argument that only whoever calls it can give, and what that is; such a benchmark
            is named in the table, and not run.
        spark: Whether it starts a JVM.
    """

    quick: str = ""
    usual: str = ""
    needs: str = ""
    spark: bool = False


# What has no line here runs with its own defaults, with --quick too.
SIZES = {
    "apply_pins": Size("--models 20 --days 2"),
    "changed_keys_on_spark": Size("--rows 2000 --keys 200 --changed 10 --rounds 1", spark=True),
    "changes_on_spark": Size("--seeds 1 --steps 2 --every 20", "--seeds 2", spark=True),
    "cli_startup": Size("--models 50 --runs 1"),
    "dagster_faults": Size("--storage batched"),
    "dagster_launchpad": Size("--models 10 --times 1", spark=True),
    "dagster_load": Size("--models 50"),
    "dagster_names": Size("--projects 10"),
    "dagster_recording": Size("--partitions 400"),
    "dagster_run_phases": Size("--models 10 --times 1"),
    "dagster_scale": Size("--models 100 --environments 3"),
    "dbt_beside": Size(needs="PROJECT … --dbt PYTHON, dbt projects and an environment with dbt"),
    "dbt_costs": Size(needs="PROJECT --dbt PYTHON, a dbt project and an environment with dbt"),
    "dbt_histories": Size(needs="--dbt PYTHON, an environment with dbt-duckdb or dbt-spark"),
    "dbt_newcomer": Size(needs="PROJECT, a dbt project with data"),
    "dbt_projects": Size(needs="PROJECT …, dbt projects, compiled or with --dbt"),
    "dialect_coverage": Size(needs="FOLDER …, copies of public projects"),
    "dialect_expressions": Size("--count 20 --engines duckdb", spark=True),
    "dialect_grid": Size("--combinations 3 --only date_trunc", spark=True),
    "dialect_page": Size(),
    "docs_site": Size("--models 50 --runs 1"),
    "editor_speed": Size("--models 50"),
    "editor_stdio": Size("--models 50 --times 2"),
    "environment_histories": Size("--seconds 10 --steps 5", "--seconds 900"),
    "equal_pairs": Size(needs="--file FILE, published pairs of queries"),
    "execution_batches": Size("--rows 100000 --seconds 0.2 --rounds 1 --cores 2", spark=True),
    "execution_on_spark": Size(spark=True),
    "execution_overhead": Size(),
    "execution_sweep": Size("20", "900"),
    "field_histories": Size("--seconds 40 --steps 5", "--seconds 900", spark=True),
    "function_types": Size("--calls 500", spark=True),
    "fuzz_project_files": Size("--count 40"),
    "grammar_on_spark": Size("--queries 300", spark=True),
    "inner_loop": Size("--models 10 --sides cold", spark=True),
    "install_sizes": Size(),
    "kills_on_spark": Size("--seconds 60", "--seconds 1200", spark=True),
    "large_backfill": Size("--rows 100000", spark=True),
    "large_state": Size("--environments 8 --versions 5 --models 40"),
    "lineage_beside_spark": Size(spark=True),
    "lineage_beside_sqlglot": Size(needs="FOLDER, SQLGlot's source distribution"),
    "lineage_scale": Size("--models 50 --runs 1"),
    "mirror_views": Size("--views 20 --rounds 1", spark=True),
    "nested_reads": Size("--tables 4 --columns 6", spark=True),
    "opaque_queries": Size(needs="--folder FOLDER, queries of a warehouse"),
    "planning_beside_sqlmesh": Size(needs="ENVIRONMENT, a folder in which SQLMesh is installed"),
    "planning_drift": Size("--models 50 --runs 1 --rounds 1"),
    "planning_intervals": Size("--models 2 --holes 1000"),
    "planning_oracle": Size("--projects 5"),
    "planning_scale": Size("--models 50 --runs 1"),
    "publish_pins": Size("--tables 30 --versions 4 --moved 3"),
    # Its quick size starts no JVM.
    "publish_views": Size("--sizes 50 --stores sqlite --without-spark", spark=True),
    "random_kills": Size("--trials 6 --engine duck --states sqlite", "--seconds 1200", spark=True),
    "refresh_histories": Size("--histories 5 --models 5 --ticks 1", "--histories 500", spark=True),
    "refresh_modes": Size("--rows 30000 --shares 0.01 --rounds 1", spark=True),
    "refresh_month": Size("--days 2 --only orders", spark=True),
    "refresh_projects": Size(needs="CHECKOUTS, clones of public projects, or --dbt"),
    # Installs extensions of DuckDB, where none are given.
    "refresh_methods": Size("--seeds 200", "--seeds 20000 --spark 300", spark=True),
    "refresh_costs": Size("--rows 2000 --shares 0.01 --rounds 1", spark=True),
    "refresh_replays": Size("--seeds 4 --days 10"),
    "refresh_tpc": Size("--only tpch --rows 0.01 --shares 0.01", "--rows 0.1", spark=True),
    "refresh_tpc_on_spark": Size(
        "--scale 0.01 --only tpch --queries 1,6 --shares 0.01", "--seconds 2400", spark=True
    ),
    "rest_sweep": Size("--only plan --modes kill_before", "--stride 20", spark=True),
    "rule_variants": Size("--pairs 40", "--pairs 10000", spark=True),
    "secret_texts": Size("--count 100"),
    "seeded_attacks": Size("--seconds 5", "--seconds 600"),
    "semantics_on_spark": Size("--queries 20 --expressions 200", spark=True),
    "semantics_soundness": Size("--pairs 100 --dense 20"),
    "semantics_speed": Size("--models 30"),
    "serve_busy": Size("--seconds 5 --clients 2"),
    "serve_catalog": Size("--models 20 --clients 2 --publications 2"),
    "serve_filters": Size("--count 100"),
    "skipped_runs": Size("--projects 1 --days 4"),
    "skipped_runs_on_spark": Size("--days 2 --models 4", spark=True),
    "spark_overhead": Size(spark=True),
    "sqlmesh_documents": Size(needs="CHECKOUT, a copy of SQLMesh's repository"),
    "sqlmesh_projects": Size(needs="CHECKOUTS, clones of public projects (--fetch makes them)"),
    "stalled_publishers": Size("--stops 4", "--stops 60"),
    "template_escapes": Size("--count 200"),
    "vault_loaders": Size("--keys 1000 --loaders 1 2 --processes --known 3000", spark=True),
}
