"""Every kind that owns a table, as worlds of `kills` live it."""

from __future__ import annotations

from vde_dagster_tests.kinds.kills import MODEL, Life

ADD = """
    from pyspark.sql.functions import lit

    from vde_dagster import materialization


    @materialization("add")
    def write(rows, target):
        writer = target.writer(rows)
        writer.overwrite(lit(True)) if target.anew else writer.append()
"""
MERGE = """
    from pyspark.sql.functions import col, expr

    from vde_dagster import materialization


    @materialization("newest")
    def write(rows, target):
        at = target.columns
        news = rows.selectExpr(*(f"{name} AS s_{name}" for name in at))
        given = {at[name]: col(f"s_{name}") for name in at}
        same = expr(f"{at['id']} = s_id AND {at['day']} = s_day")
        merge = news.mergeInto(target.name, same)
        merge.whenMatched().update(given).whenNotMatched().insert(given).merge()
"""
WHOLE = "SELECT id, day, v FROM lake.events"
SCD = "SELECT id, v, CAST(day AS TIMESTAMP) AS updated_at FROM lake.events WHERE day BETWEEN "
COUNTS = "SELECT id, day, count(*) AS v FROM lake.events GROUP BY id, day"
MEANS = "SELECT id, day, CAST(avg(v) AS INT) AS v FROM lake.events GROUP BY id, day"
MORE = (MODEL, "AS v FROM", "AS v, count(v) AS more FROM")
REFRESHED = (
    ("FULL by rows", "FULL (refresh changes)", WHOLE, ()),
    ("FULL by groups", "FULL (refresh changes)", COUNTS, MORE),
    ("FULL by keys", "FULL (refresh changes)", MEANS, MORE),
    ("INCREMENTAL_BY_CHANGES", "INCREMENTAL_BY_CHANGES (key id)", WHOLE, ()),
    (
        "INCREMENTAL_BY_UNIQUE_KEY",
        "INCREMENTAL_BY_UNIQUE_KEY (unique_key id, refresh changes)",
        WHOLE,
        (),
    ),
    (
        "SCD_TYPE_2_BY_COLUMN",
        "SCD_TYPE_2_BY_COLUMN (unique_key id, columns (day, v), invalidate_hard_deletes true, "
        "refresh changes)",
        WHOLE,
        (),
    ),
)
"""Name, kind, query and change of models that refresh from changes, in each way."""
MODES = ("copy-on-write", "merge-on-read")
BATCH = "batch_size 1, disable_restatement false, forward_only false"
LIVES = (
    Life("FULL", "FULL", WHOLE),
    Life("FULL by rows", "FULL (refresh changes)", WHOLE),
    Life(
        "FULL by groups",
        "FULL (refresh changes)",
        COUNTS,
        change=MORE,
    ),
    *(
        Life(
            f"{name} after deletes, {mode}",
            f"{kind}, physical_properties ('write.delete.mode' = '{mode}', "
            f"'write.merge.mode' = '{mode}')",
            query,
            refreshes=True,
            **({"change": change} if change else {}),  # type: ignore[arg-type]
        )
        for name, kind, query, change in REFRESHED
        for mode in MODES
    ),
    Life(
        "INCREMENTAL_BY_TIME_RANGE",
        "INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1, lookback 1)",
    ),
    Life(
        "INCREMENTAL_BY_TIME_RANGE at once",
        "INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1, batch_concurrency 2)",
        late=False,
        threads=2,
    ),
    Life(
        "INCREMENTAL_BY_TIME_RANGE in parts of files",
        "INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 2, lookback 1), partitioned_by id",
    ),
    Life(
        "INCREMENTAL_BY_UNIQUE_KEY",
        "INCREMENTAL_BY_UNIQUE_KEY (unique_key id, batch_size 1, lookback 1)",
    ),
    Life(
        "INCREMENTAL_BY_UNIQUE_KEY that adds up",
        "INCREMENTAL_BY_UNIQUE_KEY (unique_key id, batch_size 1, when_matched "
        "WHEN MATCHED AND source.v < 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET target.v = target.v + source.v, target.day = source.day)",
        late=False,
        refills=False,
    ),
    Life(
        "SCD_TYPE_2_BY_TIME",
        f"SCD_TYPE_2_BY_TIME (unique_key id, {BATCH})",
        SCD + "@start_date AND @end_date",
        late=False,
    ),
    Life(
        "SCD_TYPE_2_BY_COLUMN",
        f"SCD_TYPE_2_BY_COLUMN (unique_key id, columns (day, v), {BATCH})",
        late=False,
    ),
    Life(
        "INCREMENTAL_BY_PARTITION",
        "INCREMENTAL_BY_PARTITION (batch_size 1, lookback 1, disable_restatement false), "
        "partitioned_by id",
    ),
    Life(
        "INCREMENTAL_UNMANAGED",
        "INCREMENTAL_UNMANAGED (batch_size 1, disable_restatement false)",
        late=False,
        refills=False,
    ),
    Life(
        "CUSTOM",
        "CUSTOM (materialization 'add', batch_size 1)",
        late=False,
        files={"materializations/add.py": ADD},
    ),
    Life(
        "CUSTOM by MERGE",
        "CUSTOM (materialization 'newest', batch_size 1, lookback 1)",
        files={"materializations/newest.py": MERGE},
    ),
    Life(
        "NEWEST_ROWS", "NEWEST_ROWS (row_key id, newest_by day, keep 2, batch_size 1)", late=False
    ),
    Life("FIRST_SEEN", "FIRST_SEEN (key id, time day, batch_size 1, lookback 1)"),
    Life("CHANGES", "CHANGES (key id, time day, batch_size 1, lookback 1)"),
    Life("INCREMENTAL_BY_CHANGES", "INCREMENTAL_BY_CHANGES (key id)", WHOLE),
    Life("APPENDED", "APPENDED (parents lake.events)", WHOLE),
    Life(
        "SEED",
        "",
        "",
        runs=False,
        change=("seeds/it.csv", "2,2", "2,3\n3,3"),
        files={
            MODEL: """
                MODEL (name m.it, kind SEED (path '../seeds/it.csv'), columns (id INT, v INT),
                  audits (not_null(columns := (id))));
            """,
            "seeds/it.csv": "id,v\n1,1\n2,2\n",
        },
    ),
)
