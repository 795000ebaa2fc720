"""Failing rows of audits as tables of texts."""

from __future__ import annotations

from vde_dagster.base.failures import FailedAudit
from vde_dagster.reports.errors import rows_as_lines


def test_a_long_value_keeps_its_begin_and_its_end() -> None:
    value = "s3://shop/landing/2024/01/02/orders-part-00017.parquet"
    audit = FailedAudit("not_null", 1, ({"file": value},))
    assert rows_as_lines(audit) == ["file", "s3://shop/landing/2024/01/0 … 17.parquet"]
