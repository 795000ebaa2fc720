"""Search for variants near the rules of versions that have one version and two answers on Spark."""

from __future__ import annotations

import logging
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vde_dagster.errors import VdeError
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.session import UNKNOWN, Session
from vde_dagster_tests.semantics.variants import KEYS, PARENTS, SCHEMA, Example, Variants
from vde_dagster_tests.spark.random_pairs import quick_session

ZONES = ("UTC", "America/New_York", "Asia/Kathmandu")
ROWS = 24
_VALUES = {
    "INT": "NULL 0 1 2 3 5 -1 2147483647 -2147483648",
    "BIGINT": "NULL 0 1 2 5 -1 4294967297 9223372036854775807L -9223372036854775808L",
    "SMALLINT": "NULL 0 1 2 5 -32768 32767",
    "TINYINT": "NULL 0 1 2 5 -128 127",
    "DOUBLE": "NULL 0 1 2 2.5 'NaN' '-0.0' 'Infinity' '-Infinity' '4.9E-324' '9.0071992547E15'",
    "FLOAT": "NULL 0 1 2.5 'NaN' '-0.0' '-Infinity' '3.4028235E38'",
    "DECIMAL(10, 2)": "NULL 0 1 2.5 2 -0.05 99999999.99",
    "STRING": "NULL '' 'a' 'b' 'ab' 'A' 'x' '1' '01' '1.0' '5' '%' 'a%' 'ß' 'İ' '2024-02-24' 'NaN'",
    "BOOLEAN": "NULL TRUE FALSE",
    "DATE": "NULL '2024-02-24' '2024-02-29' '0001-01-01' '9999-12-31' '1969-12-31'",
    "TIMESTAMP": "NULL '2024-02-24' '2024-03-10T02:30:00' '1883-11-18' '2024-11-03T01:30:00.1'",
    "TIMESTAMP_NTZ": "NULL '2024-02-24' '2024-03-10T02:30:00' '9999-12-31T23:59:59.999999'",
}  # fmt: skip
"""Values between blanks; every type's edges are among them."""


_ZONED = Session(has_zoned_timestamps=True)


@dataclass(frozen=True, slots=True)
class Mode:
    """A session in which variants are answered.

    Args:
        ansi: Whether Spark raises errors.
        session: The assumptions under which versions are computed.
    """

    zone: str
    ansi: bool = True
    ntz: bool = False
    session: Session = _ZONED

    @property
    def name(self) -> str:
        """The mode in words."""
        words = [self.zone, "ANSI" if self.ansi else "not ANSI", *(["NTZ"] if self.ntz else [])]
        return ", ".join(words)


MODES = (
    *(Mode(zone, ansi) for zone in ZONES for ansi in (True, False)),
    Mode("America/New_York", ansi=True, ntz=True, session=UNKNOWN),
    Mode("UTC", ansi=False, ntz=True, session=UNKNOWN),
)


@dataclass(slots=True)
class Found:
    """Result of a search.

    Args:
        tried: Variants that were made.
        compared: Pairs of one version that Spark answered in one session, of each example.
        raised: Those of which both sides raised an error.
        by_order: Those of which one side did, by the order of conditions or of sums.
        wrong: Pairs of one version with two answers.
    """

    tried: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    raised: int = 0
    by_order: int = 0
    wrong: list[str] = field(default_factory=list)


def open_session(session: Any, mode: Mode, rng: random.Random) -> Any:
    """A session of its own in a mode, with random rows as literals.

    Spark computes expressions over literals before it simplifies them, so that more errors are
    raised than over tables.
    """
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    made = quick_session(session)
    made.conf.set("spark.sql.ansi.enabled", str(mode.ansi).lower())
    made.conf.set("spark.sql.session.timeZone", mode.zone)
    for name, columns in SCHEMA.items():
        keyed = {column for key in KEYS.get(name, ()) for column in key}
        lines = [
            ", ".join(
                f"CAST({n if column in keyed else rng.choice(_VALUES[kind].split())} AS {kind})"
                for column, kind in columns.items()
            )
            for n in range(ROWS)
        ]
        names = ", ".join(columns)
        rows = ", ".join(f"({line})" for line in lines)
        made.sql(f"SELECT * FROM VALUES {rows} AS v({names})").createOrReplaceTempView(name)
    if mode.ntz:
        made.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    return made


def search(session: Any, seed: int, variants: int, mode: Mode) -> Found:
    """Make variants, and ask Spark for those pairs whose sides have one version.

    Args:
        session: Any session of the JVM.
        seed: Of the rows and the variants.
        variants: How many to make.
    """
    rng = random.Random(seed)
    mine = open_session(session, mode, rng)
    made, found = Variants(rng), Found()
    seen: set[tuple[str, str]] = set()
    while found.tried < variants:
        found.tried += 1
        pair = made.pair()
        queries = pair.queries()
        width = _width(queries, mode.session)
        if queries[0] == queries[1] or queries in seen or width is None:
            continue
        if any(map(_ENORMOUS.search, queries)):
            continue
        seen.add(queries)
        _compare(mine, pair, width, found)
    return found


def _width(queries: tuple[str, str], session: Session) -> int | None:
    """The number of columns of two queries of one version; None where they have two."""
    try:
        one, two = (analyze(q, SCHEMA, parents=PARENTS, session=session).version for q in queries)
    except VdeError:
        return None
    same = one.rows == two.rows and [*one.columns.values()] == [*two.columns.values()]
    return len(one.columns) if same else None


def _compare(session: Any, pair: Example, width: int, found: Found) -> None:
    """Ask Spark for both sides of a pair."""
    left, right = pair.queries()
    one, other = _answer(session, left, width), _answer(session, right, width)
    found.compared[pair.name] += 1
    errors = {q: answer for q, answer in ((left, one), (right, other)) if isinstance(answer, str)}
    if len(errors) == 2 or any(error.startswith(_OTHERS) for error in errors.values()):
        found.raised += 1
    elif _depends_on_order(errors, (left, right)):
        found.by_order += 1
    elif not _are_equal(one, other, grouped=all(map(_GROUPED.search, (left, right)))):
        found.wrong.append(f"{pair.name}:\n  {left}\n  {right}\n  {one}\n  {other}")


def _depends_on_order(errors: Mapping[str, str], queries: tuple[str, str]) -> bool:
    """Whether one side's error may come from another order of its conditions or sums.

    Args:
        errors: The errors of the queries that raise one.
    """
    ignored = _FILTERED.search(queries[0]) or any(map(_UNREAD.search, errors))
    if ignored and any(error in _BY_ROWS for error in errors.values()):
        return True
    return "ARITHMETIC_OVERFLOW" in errors.values() and all(map(_SUMMED.search, queries))


def _answer(session: Any, query: str, width: int) -> Counter[str] | str:
    """The bag of rows with their types, or the class of an error."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    names = ", ".join(f"c{n}" for n in range(width))
    whole = (
        "SELECT concat(typeof(struct(v.*)), to_json(struct(v.*))) AS line "
        f"FROM ({query}) AS v({names})"
    )
    try:
        lines = [row.line for row in session.sql(whole).collect()]
    except PySparkException as error:
        return str(error.getCondition())
    except Py4JJavaError as error:
        return str(error.java_exception.getClass())
    return Counter(lines)


def _are_equal(one: Counter[str] | str, other: Counter[str] | str, *, grouped: bool) -> bool:
    """Whether two answers are equal; of 0.0 and -0.0 grouped ones have that which came first."""
    if one == other or not grouped or isinstance(one, str) or isinstance(other, str):
        return one == other
    left, right = (Counter(_ZERO.sub("0.0", line) for line in a.elements()) for a in (one, other))
    return left == right


_OTHERS = ("PARSE_SYNTAX_ERROR", "class java.", "MISSING_ATTRIBUTES", "CANNOT_OPEN_SOCKET")
"""Errors of the grammar, which has tests of its own, and failures of Spark's analysis and optimizer
(`count(+i) OVER (PARTITION BY i)`, see docs/concepts.md) and of its connection to Python."""
_BY_ROWS = frozenset(
    {"ARITHMETIC_OVERFLOW", "CAST_INVALID_INPUT", "CAST_OVERFLOW", "DIVIDE_BY_ZERO"}
    | {"REMAINDER_BY_ZERO", "NUMERIC_VALUE_OUT_OF_RANGE", "DATETIME_OVERFLOW"}
    | {"CANNOT_PARSE_TIMESTAMP", "INVALID_ARRAY_INDEX"}
)
"""Errors that some values raise."""
_FILTERED = re.compile(r"\bJOIN\b|\bEXISTS\b|\bIN \(SELECT\b|\bWHERE\b.*\b(AND|WHERE)\b")
"""Queries with several conditions, of which Spark chooses the order, see docs/concepts.md."""
_UNREAD = re.compile(r"^SELECT (\w+) FROM \(SELECT \1, ")
"""An unread column: Spark may compute it over literal rows, see docs/concepts.md."""
_SUMMED = re.compile(r"\b(sum|avg)\(", re.IGNORECASE)
"""Sums, which may overflow in one order of their rows only, see docs/concepts.md."""
_GROUPED = re.compile(r"\b(max|min|first|any_value|DISTINCT|GROUP|UNION|INTERSECT|EXCEPT)\b")
_ENORMOUS = re.compile(r"[lr]pad\(.*\b21474836\d\d\b")
"""Texts of 2 GiB, which end a JVM that other tests share."""
_ZERO = re.compile(r"-0\.0\b")
