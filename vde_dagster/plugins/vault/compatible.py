"""The hashes of AutomateDV and of datavault4dbt on Databricks, to take over an existing vault.

The rules come from their documentation and their sources: AutomateDV 0.11.5
(https://automate-dv.readthedocs.io/en/latest/best_practises/hashing/) and datavault4dbt 1.18.3 and
2.0.0 (https://www.datavault4dbt.com/documentation/). Both cast values to text and trim spaces.
AutomateDV replaces '' by NULL and NULL by `^^`, and joins columns by `||`; a hashdiff sorts columns
by name; a key of only NULLs is NULL. datavault4dbt puts values in double quotes, keeps the given
order, and removes line ends and tabs; a row of only NULLs gets the zero key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from vde_dagster.plugins.vault.digests import Digest

if TYPE_CHECKING:
    from vde_dagster.api.sql import MacroEvaluator

_NULL, _JOINED = "^^", "||"


class Rules(NamedTuple):
    """Rules for normalizing values before hashing.

    Args:
        name: A key of `RULES`.
        upper_keys: Whether keys are hashed in upper case.
        upper_hashdiffs: Whether attributes are hashed in upper case.
        replaced: Replacements of texts in values.
        case_sensitive: Overrides `upper_keys` and `upper_hashdiffs`.
    """

    name: str
    upper_keys: bool
    upper_hashdiffs: bool
    replaced: tuple[tuple[str, str], ...] = ()
    case_sensitive: bool | None = None

    def upper(self, *, hashdiff: bool) -> bool:
        """Return whether a text is hashed in upper case."""
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
            (_JOINED, "dv4dbt-concat-replacement"),
        ),
    ),
    # On Databricks 1.x inverts the setting of upper case.
    "datavault4dbt_1": Rules("datavault4dbt_1", False, True, ((_NULL, "--"),)),
}


def hash_key(evaluator: MacroEvaluator, rules: Rules, values: Sequence[str], digest: Digest) -> str:
    """Write the hash of a key."""
    upper = rules.upper(hashdiff=False)
    if rules.name != "automate_dv":
        return _datavault4dbt(evaluator, rules, values, digest, upper=upper)
    digest = digest._replace(upper=True)
    if len(values) == 1:
        return digest.hashed(_standard(values[0], upper=upper))
    return digest.hashed(f"NULLIF({_joined(values, upper=upper)}, '{_all_null(values)}')")


def hashdiff(
    evaluator: MacroEvaluator,
    rules: Rules,
    named: Sequence[tuple[str, str]],
    digest: Digest,
    multi_active: str | None,
) -> str:
    """Write the hash of named attributes, for a row or with `multi_active` for a set of rows."""
    upper = rules.upper(hashdiff=True)
    if rules.name == "automate_dv":
        if multi_active is not None:
            raise evaluator.error(
                "AutomateDV does not hash sets", "it compares the hashdiffs of a set's rows"
            )
        values = [value for _, value in sorted(named, key=lambda one: one[0].lower())]
        return digest._replace(upper=True).hashed(_joined(values, upper=upper))
    values = [value for _, value in named]
    return _datavault4dbt(evaluator, rules, values, digest, upper=upper, set_key=multi_active)


def _standard(value: str, *, upper: bool) -> str:
    text = f"TRIM(CAST({value} AS STRING))"
    return f"NULLIF({f'UPPER({text})' if upper else text}, '')"


def _joined(values: Sequence[str], *, upper: bool) -> str:
    texts = (f"COALESCE({_standard(value, upper=upper)}, '{_NULL}')" for value in values)
    return f"CONCAT_WS('{_JOINED}', {', '.join(texts)})"


def _all_null(values: Sequence[str]) -> str:
    return _JOINED.join(_NULL for _ in values)


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
            "its default is text: write form := 'text'",
        )
    if set_key is not None and rules.name != "datavault4dbt":
        raise evaluator.error(
            "@HASHDIFF takes multi_active with compat := 'datavault4dbt' only",
            "version 1 hashes a set differently",
        )
    quoted = []
    for value in values:
        text = f"REPLACE(TRIM(CAST({value} AS STRING)), '\\\\', '\\\\\\\\')"
        for sign, written in rules.replaced:
            text = f"REPLACE({text}, '{sign}', '{written}')"
        quoted.append(f"COALESCE(CONCAT('\"', {text}, '\"'), '{_NULL}')")
    row = f"CONCAT_WS('{_JOINED}', {', '.join(quoted)})"
    row = f"UPPER({row})" if upper else row
    row = f"NULLIF(REGEXP_REPLACE({row}, '[\\\\n\\\\t\\\\v\\\\r]', ''), '{_all_null(values)}')"
    if set_key is not None:
        order = set_key.strip().removeprefix("(").removesuffix(")")
        row = f"LISTAGG({row}, ',') WITHIN GROUP (ORDER BY {order})"
    return f"COALESCE({digest.hashed(row)}, {digest.zero})"
