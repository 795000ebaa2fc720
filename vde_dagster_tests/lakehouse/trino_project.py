"""The project whose views `trino_reads` reads: the kinds of models, types and names there are.

Numbers are sums of powers of two where engines may add them in any order.
"""

from __future__ import annotations

TRINO_CATALOG = "iceberg_of_vde"
"""The catalog's name in Trino, which is another in Spark."""

SPARK_ONLY = frozenset({"marts.pivoted"})
"""Models that SQLGlot has no Trino query for."""

ORDERS = "models/staging/orders.sql"
CUSTOMERS = "models/marts/customers.sql"

MODELS = {
    "models/raw/orders.sql": """
        MODEL (name raw.orders, kind SEED (path '../../seeds/orders.csv'),
          columns (id INT, customer STRING, amount DECIMAL(10,2), weight DOUBLE, day DATE));
    """,
    "seeds/orders.csv": """
        id,customer,amount,weight,day
        1,ann,5.00,0.5,2024-01-01
        2,bob,7.25,0.25,2024-01-01
        3,ann,2.50,,2024-01-02
        4,"o'neil ""x"" é",20.01,4,2024-01-03
        5,,-1.10,2.75,2024-01-05
    """,
    ORDERS: """
        MODEL (name staging.orders, kind VIEW, description 'Orders; "quoted", isn''t it?');
        SELECT id, customer, amount, weight, day FROM raw.orders WHERE amount > 0
    """,
    CUSTOMERS: """
        MODEL (name marts.customers, kind FULL);
        SELECT customer, count(*) AS orders, sum(amount) AS revenue, max(day) AS last_day
        FROM staging.orders GROUP BY customer
    """,
    "models/marts/daily.sql": """
        MODEL (name marts.daily, start '2024-01-01', end '2024-01-05', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT day, count(*) AS orders, avg(weight) AS weight
        FROM staging.orders WHERE day BETWEEN @start_date AND @end_date GROUP BY day
    """,
    "models/marts/latest.sql": """
        MODEL (name marts.latest, start '2024-01-01', end '2024-01-05', cron '@daily',
          kind INCREMENTAL_BY_UNIQUE_KEY (unique_key customer));
        SELECT customer, max(id) AS id FROM staging.orders
        WHERE day BETWEEN @start_date AND @end_date AND customer IS NOT NULL GROUP BY customer
    """,
    "models/marts/lives.sql": """
        MODEL (name marts.lives, kind SCD_TYPE_2_BY_COLUMN (unique_key id, columns [customer],
          execution_time_as_valid_from true));
        SELECT id, customer FROM raw.orders WHERE id < 4
    """,
    "models/marts/parts.sql": """
        MODEL (name marts.parts, kind INCREMENTAL_BY_PARTITION, partitioned_by (day),
          start '2024-01-01', end '2024-01-05', cron '@daily');
        SELECT id, day FROM staging.orders WHERE day BETWEEN @start_date AND @end_date
    """,
    "models/marts/added.sql": """
        MODEL (name marts.added, kind INCREMENTAL_UNMANAGED, start '2024-01-01',
          end '2024-01-05', cron '@daily');
        SELECT id, weight FROM staging.orders WHERE day BETWEEN @start_date AND @end_date
    """,
    "models/marts/hidden.sql": """
        MODEL (name marts.hidden, kind EMBEDDED); SELECT id, amount FROM raw.orders WHERE id > 1
    """,
    "models/marts/unhidden.sql": """
        MODEL (name marts.unhidden, kind VIEW);
        SELECT h.id, l.id AS latest FROM marts.hidden AS h JOIN marts.latest AS l ON h.id = l.id
    """,
    "models/marts/chosen.sql": """
        MODEL (name marts.chosen, kind VIEW, description 'Columns of one table');
        SELECT day, id AS number, customer FROM raw.orders
    """,
    "models/types/all.sql": """
        MODEL (name types.`all`, kind FULL);
        SELECT 1 AS id, true AS yes, CAST(1 AS TINYINT) AS tiny, CAST(-2 AS SMALLINT) AS small,
          9007199254740993 AS big, CAST(0.1 AS FLOAT) AS single, CAST(0.1 AS DOUBLE) AS double_,
          12.345 AS number, 'é "x"' AS text, CAST('ab' AS BINARY) AS bytes,
          DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:34:56.123456' AS at,
          TIMESTAMP_NTZ '1969-12-31 23:59:59.999999' AS local_at, array(1, NULL, 3) AS list,
          map('a', 1.5, 'b', NULL) AS pairs,
          named_struct('x', 1, 'When', TIMESTAMP '2024-01-01 00:00:00') AS `row`,
          array(named_struct('k', array('p', 'q'))) AS deep
        UNION ALL
        SELECT 2, NULL, NULL, NULL, NULL, NULL, CAST('NaN' AS DOUBLE), NULL, NULL, NULL, NULL,
          NULL, NULL, NULL, NULL, NULL, NULL
    """,
    "models/types/viewed.sql": """
        MODEL (name types.viewed, kind VIEW);
        SELECT *, NULL AS nothing FROM types.`all`
    """,
    "models/odd/names.sql": """
        MODEL (name odd.`select`, kind FULL);
        SELECT id AS `group`, customer AS `two words`, amount AS `quo"te`, day AS Upper,
          weight AS `größe`
        FROM raw.orders
    """,
    "models/odd/names_viewed.sql": """
        MODEL (name odd.`two words`, kind VIEW);
        SELECT s.`quo"te` AS `order`, s.`two words`, s.upper AS `it's` FROM odd.`select` AS s
    """,
    "models/marts/joined.sql": """
        MODEL (name marts.joined, kind VIEW);
        WITH big AS (SELECT customer, revenue FROM marts.customers WHERE revenue > 6)
        SELECT o.id, c.orders, b.revenue, d.orders AS `on the day`
        FROM staging.orders AS o
        LEFT JOIN marts.customers AS c ON o.customer = c.customer
        LEFT JOIN big AS b ON o.customer <=> b.customer
        JOIN marts.daily AS d USING (day)
    """,
    "models/marts/wider.sql": """
        MODEL (name marts.wider, kind VIEW, description 'Trino gives these other types');
        SELECT customer, sum(amount) AS revenue, avg(amount) AS mean, sum(amount) / 3 AS third,
          ceil(sum(weight)) AS boxes, year(max(day)) AS `year`,
          row_number() OVER (ORDER BY sum(amount)) AS place,
          CAST(sum(amount) AS INT) AS whole, CAST(max(weight) AS BIGINT) AS heavy,
          min(id) / 2 AS half, min(id) DIV 2 AS div_, avg(DISTINCT amount) AS mean_distinct
        FROM raw.orders GROUP BY customer
    """,
    "models/marts/functions.sql": """
        MODEL (name marts.functions, kind VIEW);
        SELECT id, upper(customer) AS u, coalesce(customer, 'nobody') || '!' AS named,
          split(customer, 'n')[0] AS first, if(id > 2, 'late', 'early') AS when_,
          date_add(day, 1) AS next, day - INTERVAL 1 DAY AS previous,
          datediff(day, DATE '2024-01-01') AS age, date_format(day, 'yyyy-MM') AS month,
          date_trunc('month', CAST(day AS TIMESTAMP)) AS month_start, array(id, 7)[1] AS seven,
          regexp_replace(customer, '[aeiou]', '') AS consonants, id IN (1, 3) AS chosen,
          try_cast('x' AS INT) AS no_number
        FROM raw.orders
    """,
    "models/marts/exploded.sql": """
        MODEL (name marts.exploded, kind VIEW);
        SELECT a.id, p, e, a.`row`.x AS x
        FROM types.`all` AS a LATERAL VIEW posexplode(list) AS p, e
    """,
    "models/marts/newest.sql": """
        MODEL (name marts.newest, kind VIEW);
        SELECT id, day FROM staging.orders AS o
        WHERE EXISTS (SELECT 1 FROM marts.latest AS l WHERE l.id = o.id)
        QUALIFY row_number() OVER (PARTITION BY day ORDER BY id) = 1
        UNION SELECT r.id, r.day FROM raw.orders AS r
        LEFT ANTI JOIN staging.orders AS s ON r.id = s.id
    """,
    "models/marts/pivoted.sql": """
        MODEL (name marts.pivoted, kind VIEW);
        SELECT * FROM (SELECT id, day, weight FROM raw.orders)
        PIVOT (max(weight) FOR id IN (1 AS one, 2 AS two))
    """,
}

CODE = {
    "models/marts/timed.sql": """
        MODEL (name marts.timed, kind SCD_TYPE_2_BY_TIME (unique_key id, updated_at_name at));
        SELECT id, customer, CAST(day AS TIMESTAMP) AS at FROM raw.orders
    """,
    "models/marts/kept.sql": """
        MODEL (name marts.kept, kind CUSTOM (materialization 'whole'));
        SELECT id, customer, amount FROM staging.orders
    """,
    "materializations/whole.py": """
        from pyspark.sql import functions as f

        from vde_dagster import materialization


        @materialization("whole")
        def write(rows, target):
            target.writer(rows).overwrite(f.lit(True))
    """,
    "models/marts/coded.py": """
        from vde_dagster import model


        @model("marts.coded", columns={"day": "DATE", "n": "BIGINT"}, depends_on=["raw.orders"])
        def execute(context, start, end, execution_time, **more):
            orders = context.resolve_table("raw.orders")
            return context.spark.sql(f"SELECT day, count(*) AS n FROM {orders} GROUP BY day")
    """,
}
"""Models whose tables are written by code of the project or by an hour of change."""
