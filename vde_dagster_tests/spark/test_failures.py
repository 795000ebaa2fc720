"""What Java threw is known from the texts that Spark Connect sends."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkAttributeError

from vde_dagster.spark.session.failures import (
    cause_line,
    execution_error,
    has_java_cause,
    java_causes,
)


class Told(Exception):
    """An exception as PySpark's client of Spark Connect raises it."""

    def __init__(self, text: str, stack: str | None) -> None:
        super().__init__(text)
        self._stack = stack

    def getStackTrace(self) -> str | None:
        return self._stack


STACK = """org.apache.spark.SparkException
\tat org.apache.spark.Writer.write(Writer.scala:1)
Caused by: org.apache.iceberg.exceptions.ValidationException: Found conflicting files: a: b.parquet
and more of them
\tat org.apache.iceberg.MergingSnapshotProducer.validate(MergingSnapshotProducer.java:2)"""
CONFLICT = "org.apache.iceberg.exceptions.ValidationException"


def test_the_first_exception_has_the_message_and_its_causes_their_own() -> None:
    error = Told(f"Writing failed\n\nJVM stacktrace:\n{STACK}", STACK)
    assert java_causes(error) == [
        ("org.apache.spark.SparkException", "Writing failed"),
        (CONFLICT, "Found conflicting files: a: b.parquet"),
    ]
    assert has_java_cause(error, "ValidationException")
    assert not has_java_cause(error, "CommitFailedException")
    assert cause_line(error) == "ValidationException: Found conflicting files: a: b.parquet"


@pytest.mark.parametrize("stack", [None, "", CONFLICT])
def test_an_exception_is_known_by_its_stack_or_by_the_name_before_its_message(
    stack: str | None,
) -> None:
    error = Told(f"({CONFLICT}) Cannot commit\n\nJVM stacktrace:\n{CONFLICT}", stack)
    assert java_causes(error) == [(CONFLICT, "Cannot commit")]


def test_without_either_nothing_is_known() -> None:
    assert java_causes(Told("the server went away", None)) == []
    assert not has_java_cause(Told("the server went away", ""), "ValidationException")


def test_code_that_needs_a_jvm_is_told_which_settings_give_it_one() -> None:
    """A server of Spark Connect has no setting `warm`."""
    missing = {"attr_name": "sparkContext"}
    error = PySparkAttributeError(
        errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters=missing
    )
    hint = execution_error(error, "db.m").hint
    assert hint is not None
    assert "warm = false" in hint
    assert "a master other than sc://" in hint
