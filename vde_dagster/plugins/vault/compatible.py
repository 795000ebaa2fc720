"""The hashes of AutomateDV and of datavault4dbt on Databricks, to take over an existing vault.

The rules come from their documentation and their sources: AutomateDV 0.11.5
(https://automate-dv.readthedocs.io/en/latest/best_practises/hashing/) and datavault4dbt 1.18.3 and
2.0.0 (https://www.datavault4dbt.com/documentation/). Both cast values to text and trim spaces.
AutomateDV replaces '' by NULL and NULL by `^^`, and joins columns by `||`. It sorts a hashdiff's
columns by name, and the hash of a key of only NULLs is NULL. datavault4dbt puts values in double
quotes, keeps the given order, and removes line ends and tabs; a row of only NULLs gets the zero
key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from vde_dagster.plugins.vault.digests import Digest

if TYPE_CHECKING:
    from vde_dagster.api.sql import MacroEvaluator

_NULL, _SEPARATOR = "^^", "||"


class Rules(NamedTuple):
    """A package's rules for converting values to the text that is hashed.

    Args:
        name: A key of `RULES`.
        upper_keys: Whether keys are hashed in upper case.
        upper_hashdiffs: Whether attributes are hashed in upper case.
        case_sensitive: Overrides `upper_keys` and `upper_hashdiffs`.
    """

    name: str
    upper_keys: bool
    upper_hashdiffs: bool
    replacements: tuple[tuple[str, str], ...] = ()
    case_sensitive: bool | None = None

    def upper(self, *, hashdiff: bool) -> bool:
        """Return whether the text of a key or a hashdiff is hashed in upper case."""
        if self.case_sensitive is not None:
            return not self.case_sensitive
        return self.upper_hashdiffs if hashdiff else self.upper_keys


RULES = {
    "automate_dv": Rules("automate_dv", True, True),
    "datavault4dbt": Rules(
        "datavault4dbt",
        True,
        False,
        (
            ('"', "dv4dbt-quote-replacement"),
            (_NULL, "dv4dbt-null-replacement"),
            (_SEPARATOR, "dv4dbt-concat-replacement"),
        ),
    ),
    # On Databricks 1.x inverts the setting of upper case.
    "datavault4dbt_1": Rules("datavault4dbt_1", False, True, ((_NULL, "--"),)),
}


def hash_key(evaluator: MacroEvaluator, rules: Rules, values: Sequence[str], digest: Digest) -> str:
    upper = rules.upper(hashdiff=False)
    if rules.name != "automate_dv":
        return _datavault4dbt(evaluator, rules, values, digest, upper=upper)
    digest = digest._replace(upper=True)
    if len(values) == 1:
        return digest.hash_text(_normalized(values[0], upper=upper))
    return digest.hash_text(f"NULLIF({_join_values(values, upper=upper)}, '{_join_nulls(values)}')")


def hashdiff(
    evaluator: MacroEvaluator,
    rules: Rules,
    named: Sequence[tuple[str, str]],
    digest: Digest,
    multi_active: str | None,
) -> str:
    """Write the SQL of a hashdiff by a package's rules.

    Args:
        named: The name and the SQL of each attribute.
        multi_active: Columns that order the rows of a set, to hash the set; None to hash one row.
    """
    upper = rules.upper(hashdiff=True)
    if rules.name == "automate_dv":
        if multi_active is not None:
            raise evaluator.error(
                "AutomateDV does not hash sets", "it compares the hashdiffs of a set's rows"
            )
        values = [value for _, value in sorted(named, key=lambda one: one[0].lower())]
        return digest._replace(upper=True).hash_text(_join_values(values, upper=upper))
    values = [value for _, value in named]
    return _datavault4dbt(evaluator, rules, values, digest, upper=upper, set_key=multi_active)


def _normalized(value: str, *, upper: bool) -> str:
    text = f"TRIM(CAST({value} AS STRING))"
    return f"NULLIF({f'UPPER({text})' if upper else text}, '')"


def _join_values(values: Sequence[str], *, upper: bool) -> str:
    texts = (f"COALESCE({_normalized(value, upper=upper)}, '{_NULL}')" for value in values)
    return f"CONCAT_WS('{_SEPARATOR}', {', '.join(texts)})"


def _join_nulls(values: Sequence[str]) -> str:
    return _SEPARATOR.join(_NULL for _ in values)


def _datavault4dbt(
    evaluator: MacroEvaluator,
    rules: Rules,
    values: Sequence[str],
    digest: Digest,
    *,
    upper: bool,
    set_key: str | None = None,
) -> str:
    if digest.binary:
        raise evaluator.error(
            f"@HASH_KEY and @HASHDIFF have no binary form with compat := '{rules.name}'",
            "write form := 'text', the default of this package",
        )
    if set_key is not None and rules.name != "datavault4dbt":
        raise evaluator.error(
            "@HASHDIFF takes multi_active with compat := 'datavault4dbt' only",
            "version 1 hashes a set differently",
        )
    quoted = []
    for value in values:
        text = f"REPLACE(TRIM(CAST({value} AS STRING)), '\\\\', '\\\\\\\\')"
        for sign, written in rules.replacements:
            text = f"REPLACE({text}, '{sign}', '{written}')"
        quoted.append(f"COALESCE(CONCAT('\"', {text}, '\"'), '{_NULL}')")
    row = f"CONCAT_WS('{_SEPARATOR}', {', '.join(quoted)})"
    row = f"UPPER({row})" if upper else row
    row = f"NULLIF(REGEXP_REPLACE({row}, '[\\\\n\\\\t\\\\v\\\\r]', ''), '{_join_nulls(values)}')"
    if set_key is not None:
        order = set_key.strip().removeprefix("(").removesuffix(")")
        row = f"LISTAGG({row}, ',') WITHIN GROUP (ORDER BY {order})"
    return f"COALESCE({digest.hash_text(row)}, {digest.zero_key})"
