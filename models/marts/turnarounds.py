"""How much of a delay an aircraft carries from one departure to its next on the same day."""

from pyspark.sql import Window
from pyspark.sql import functions as F

from vde_dagster import model


@model(
    "marts.turnarounds",
    kind="FULL",
    columns={
        "carrier": "STRING",
        "origin": "STRING",
        "turnarounds": "BIGINT",
        "mean_hours_between": "DOUBLE",
        "late_before": "BIGINT",
        "late_again": "BIGINT",
        "late_again_share": "DOUBLE",
    },
    depends_on=["staging.flights"],
    description="Aircraft that left New York twice on a day: how often a late departure follows a "
    "late one. In Python, because PySpark's windows say it best",
    owner="flights",
    grain=["carrier", "origin"],
    column_descriptions={
        "carrier": "Code of the airline of the later departure",
        "origin": "Airport of the later departure",
        "turnarounds": "Departures of aircraft that had left New York earlier on the same day",
        "mean_hours_between": "Mean hours between the two scheduled departures",
        "late_before": "Turnarounds whose earlier departure was 15 minutes late or more",
        "late_again": "Of these, how many left 15 minutes late or more again",
        "late_again_share": "late_again as a share of late_before; NULL when that is 0",
    },
    audits=[
        ("not_null", {"columns": ["carrier", "origin"]}),
        ("is_a_share", {"column": "late_again_share"}),
    ],
)
def execute(context, start, end, execution_time, **kwargs):
    flights = context.table("staging.flights").where("departure_delay IS NOT NULL")
    day_of_aircraft = Window.partitionBy("tailnum", "flight_date").orderBy(
        "scheduled_departure", "carrier", "flight_number", "origin"
    )
    pairs = (
        flights.withColumn("delay_before", F.lag("departure_delay").over(day_of_aircraft))
        .withColumn("departure_before", F.lag("scheduled_departure").over(day_of_aircraft))
        .where("delay_before IS NOT NULL")
    )
    seconds_between = F.unix_timestamp("scheduled_departure") - F.unix_timestamp("departure_before")
    late_before = F.col("delay_before") >= 15
    late_again = late_before & (F.col("departure_delay") >= 15)
    return (
        pairs.groupBy("carrier", "origin")
        .agg(
            F.count("*").alias("turnarounds"),
            F.avg(seconds_between / 3600).alias("mean_hours_between"),
            F.count_if(late_before).alias("late_before"),
            F.count_if(late_again).alias("late_again"),
        )
        .withColumn(
            "late_again_share", F.col("late_again") / F.nullif(F.col("late_before"), F.lit(0))
        )
    )
