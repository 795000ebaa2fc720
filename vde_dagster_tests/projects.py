"""Small projects for tests, written to a folder model by model."""

from __future__ import annotations

import shutil
import sqlite3
import textwrap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

START = "2024-01-01"

SHOP = {
    "models/raw/orders.sql": """
        MODEL (name raw.orders, kind SEED (path '../../seeds/orders.csv'),
          columns (id INT, customer INT, amount DOUBLE, status STRING, day DATE));
    """,
    "models/staging/orders.sql": """
        MODEL (name staging.orders, kind VIEW, description 'Orders that were not cancelled');
        SELECT id, customer, amount, day FROM raw.orders WHERE status <> 'cancelled'
    """,
    "models/marts/daily.sql": """
        MODEL (name marts.daily, start '2024-01-01', end '2024-01-05', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day),
          audits (not_null(columns := (day, revenue))));
        SELECT day, count(*) AS orders, sum(amount) AS revenue
        FROM staging.orders WHERE day BETWEEN @start_date AND @end_date GROUP BY day
    """,
    "models/marts/customers.sql": """
        MODEL (name marts.customers, kind FULL, description 'One row per customer',
          column_descriptions (customer = 'Who ordered'),
          audits (unique_values(columns := (customer))));
        SELECT customer, sum(amount) AS revenue FROM staging.orders GROUP BY customer
    """,
    "models/marts/top.sql": """
        MODEL (name marts.top, kind FULL);
        SELECT customer, revenue, rank() OVER (ORDER BY revenue DESC) AS place
        FROM marts.customers
    """,
    "seeds/orders.csv": """
        id,customer,amount,status,day
        1,10,5.0,paid,2024-01-01
        2,11,7.5,paid,2024-01-01
        3,10,2.5,cancelled,2024-01-02
        4,12,20.0,paid,2024-01-03
        5,10,1.0,paid,2024-01-05
    """,
}


def copied_project(source: Path, target: Path) -> Path:
    """Copy a project with its state, which goes on with the warehouse of the copy's settings."""
    shutil.copytree(source, target)
    state = target / ".vde" / "vde.db"
    if state.exists():
        with closing(sqlite3.connect(state)) as connection, connection:
            connection.execute("UPDATE vde_project SET warehouse = NULL")
    return target


class ProjectFolder:
    """A project on disk that a test edits.

    Args:
        root: An empty folder.
        files: Texts by path; common indentation is taken off.
    """

    def __init__(self, root: Path, files: dict[str, str] | None = None) -> None:
        self.root = root
        (root / "models").mkdir(parents=True, exist_ok=True)
        for path, text in (files or {}).items():
            self.write(path, text)

    def write(self, path: str, text: str) -> Path:
        """Write a file."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text).strip("\n") + "\n")
        return target

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text that stands in a file exactly once."""
        text = (self.root / path).read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
        (self.root / path).write_text(text.replace(old, new))

    def remove(self, path: str) -> None:
        """Delete a file."""
        (self.root / path).unlink()


Prepared = Callable[[Callable[[Path], None]], ProjectFolder]
"""Returns a project as a function left it in a new folder."""
