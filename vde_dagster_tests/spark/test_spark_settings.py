"""The lists of Spark's settings, compared with those that Spark has."""

from __future__ import annotations

from typing import Any

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster.sql.spark_settings import ASSUMED, PREFIX, may_affect_results, may_break_rules

pytestmark = pytest.mark.spark


def _settings(session: Any) -> dict[str, str]:
    """Every setting of Spark SQL, those for internal use too, with its default."""
    of_java = session._jvm.java.lang.Class.forName("org.apache.spark.sql.internal.SQLConf$")
    listed = of_java.getField("MODULE$").get(None).getConfigEntries().iterator()
    found: dict[str, str] = {}
    while listed.hasNext():
        entry = listed.next()
        found[entry.key()] = entry.defaultValueString()
    return {key: value for key, value in found.items() if key.startswith(PREFIX)}


def test_every_setting_of_spark_is_known_and_its_default_breaks_no_rule(
    spark_engine: SparkEngine,
) -> None:
    settings = _settings(spark_engine.session)

    assert len(settings) > 600
    given = {key: value for key, value in settings.items() if value != "<undefined>"}
    unknown = [key for key, value in given.items() if may_break_rules(key, value)]
    assert unknown == []
    assert all(settings[key].lower() == value.lower() for key, value in ASSUMED.items())


def test_the_language_is_of_spark_defaults(spark_engine: SparkEngine) -> None:
    settings = _settings(spark_engine.session)
    opaque = {
        key
        for key, value in settings.items()
        if may_break_rules(key, {"true": "false", "false": "true"}.get(value, "another value"))
    }

    assert len(opaque) > 100
    assert all(map(may_affect_results, opaque))
    assert set(ASSUMED) - opaque == {f"{PREFIX}ansi.enabled"}


def test_sessions_have_the_assumed_settings(spark_engine: SparkEngine) -> None:
    for key, value in ASSUMED.items():
        assert spark_engine.session.conf.get(key) == value
