"""What a query's CURRENT_DATE and its like say in a unit test with an execution time."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from vde_dagster.sql.scanner import SourceText, scan

_WITHOUT_BRACKETS = ("current_date", "current_timestamp", "localtimestamp")
_CALLED = (*_WITHOUT_BRACKETS, "now", "curdate", "unix_timestamp")


def with_frozen_time(sql: str, now: datetime) -> str:
    """Replace what asks for the time by an instant: CURRENT_DATE, `now()`, `unix_timestamp()` ….

    Args:
        sql: A Spark SQL query.
        now: The instant; days and wall clocks are those of UTC.
    """
    lowered = sql.lower()
    if not any(word in lowered for word in _CALLED):
        return sql
    values = _values(now.astimezone(timezone.utc))
    tokens = list(scan(SourceText(Path("query"), sql)))
    pieces: list[str] = []
    done = 0
    for index, token in enumerate(tokens):
        word = token.text.lower()
        if token.kind != "word" or word not in _CALLED:
            continue
        before = tokens[index - 1].text.upper() if index else ""
        behind = [one.text for one in tokens[index + 1 : index + 3]]
        is_call = behind == ["(", ")"]
        is_name = before in (".", "AS", "@") or behind[:1] in (["."], ["("])
        if is_call or (word in _WITHOUT_BRACKETS and not is_name):
            if before in (".", "@"):
                continue
            pieces += [sql[done : token.start], values[word]]
            done = tokens[index + 2].end if is_call else token.end
    return "".join([*pieces, sql[done:]])


def _values(now: datetime) -> dict[str, str]:
    day = f"DATE '{now.date().isoformat()}'"
    wall = now.replace(tzinfo=None).isoformat(sep=" ")
    instant = f"TIMESTAMP '{wall}+00:00'"
    return {
        "current_date": day,
        "curdate": day,
        "current_timestamp": instant,
        "now": instant,
        "localtimestamp": f"TIMESTAMP_NTZ '{wall}'",
        "unix_timestamp": f"{int(now.timestamp())}L",
    }
