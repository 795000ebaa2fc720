"""`@HASH_KEY`, `@HASHDIFF` and `@GHOST`: hashes of columns, written as Spark SQL.

A row's columns become one text, which is hashed; different rows have different texts. The text of a
value is canonical for its type: a decimal without trailing zeros, an instant in UTC with six digits
of a second, bytes in Base64. `|` separates columns; in a value `~` becomes `~0`, and `|` becomes
`~1`. In a key, where the order of columns counts, NULL is `~N`. In a hashdiff, each column that is
not NULL is `name=text`, sorted by name: a new column that is NULL changes no hash. A key of one
text column without `~` and `|` is the plain hash of that text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from vde_dagster.api.values import suggest
from vde_dagster.plugins.vault import compatible
from vde_dagster.plugins.vault.digests import ALGORITHMS, Digest

if TYPE_CHECKING:
    from vde_dagster.api.sql import SQL, MacroEvaluator

_ALIAS = re.compile(r"(?is)(?P<value>.*\S)\s+AS\s+(?P<name>\w+|`[^`]+`)")
_COLUMN = re.compile(r"(?:(?:\w+|`[^`]+`)\s*\.\s*)*(?P<name>\w+|`[^`]+`)")
_PLAIN_TYPES = frozenset(
    ("TEXT", "VARCHAR", "CHAR", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "BOOLEAN")
)
_INSTANT = "yyyy-MM-dd HH:mm:ss.SSSSSS"
_JSON_OPTIONS = ", ".join(
    f"'{option}', '{value}'"
    for option, value in (
        ("timeZone", "UTC"),
        ("timestampFormat", _INSTANT),
        ("timestampNTZFormat", _INSTANT),
        ("ignoreNullFields", "false"),
    )
)


def hash_key(
    evaluator: MacroEvaluator,
    *columns: SQL,
    algorithm: str = "",
    form: str = "",
    compat: str = "",
    nulls: str = "null",
    case_sensitive: bool | None = None,
) -> str:
    """`@HASH_KEY(a, b)`: the hash of a key; NULL if all of its columns are NULL.

    Args:
        algorithm: `md5`, `sha1` or `sha256`; by default the variable `vault_hash`, or MD5.
        form: `text` or `binary`; by default the variable `vault_hash_form`, or text.
        compat: `automate_dv`, `datavault4dbt` (2.0) or `datavault4dbt_1`: write exactly the hashes
            of this package on Databricks; by default the variable `vault_compat`.
        nulls: `zero` returns the zero key, not NULL, if all columns are NULL.
        case_sensitive: Only with `compat`: False hashes values in upper case, True keeps their
            case. By default, the rule of the `compat` package applies.
    """
    parts = _parse_parts(evaluator, "HASH_KEY", columns)
    digest = _choose_digest(evaluator, algorithm, form)
    _require_choice(evaluator, "nulls", nulls, ("null", "zero"))
    rules = _choose_rules(evaluator, compat, case_sensitive)
    values = [part.value for part in parts]
    if rules is not None:
        made = compatible.hash_key(evaluator, rules, values, digest)
    else:
        missing = "|".join("~N" for _ in parts)
        texts = ", ".join(
            f"COALESCE({_escape(canonical_text(evaluator, value))}, '~N')" for value in values
        )
        made = digest.hash_text(f"NULLIF(CONCAT_WS('|', {texts}), '{missing}')")
    return f"COALESCE({made}, {digest.zero_key})" if nulls == "zero" else made


def hashdiff(
    evaluator: MacroEvaluator,
    *columns: SQL,
    algorithm: str = "",
    form: str = "",
    compat: str = "",
    multi_active: SQL | None = None,
    case_sensitive: bool | None = None,
) -> str:
    """`@HASHDIFF(a, TRIM(b) AS b)`: the hash of a row's attributes, independent of their order.

    Args:
        multi_active: With `datavault4dbt`: columns that distinguish the rows of a set. The hash is
            then an aggregate over the set, to be used in a query with GROUP BY.
        algorithm, form, compat, case_sensitive: See `@HASH_KEY`.
    """
    parts = _parse_parts(evaluator, "HASHDIFF", columns)
    digest = _choose_digest(evaluator, algorithm, form)
    rules = _choose_rules(evaluator, compat, case_sensitive)
    if rules is not None:
        named = [(part.name or part.value, part.value) for part in parts]
        return compatible.hashdiff(evaluator, rules, named, digest, multi_active)
    if multi_active is not None:
        raise evaluator.error(
            "@HASHDIFF takes multi_active with compat := 'datavault4dbt' only",
            "leave out multi_active: a kind with set_key already compares whole sets",
        )
    by_name: dict[str, str] = {}
    for part in parts:
        if part.name is None:
            raise evaluator.error(
                f"@HASHDIFF depends on names, but '{part.value}' has none",
                f"write @HASHDIFF({part.value} AS name)",
            )
        if part.name.lower() in by_name:
            raise evaluator.error(
                f"@HASHDIFF has two columns '{part.name}'", "rename one of them with AS"
            )
        by_name[part.name.lower()] = part.value
    texts = ", ".join(
        f"CONCAT('{_escape_name(name)}=', {_escape(canonical_text(evaluator, value))})"
        for name, value in sorted(by_name.items())
    )
    return digest.hash_text(f"CONCAT_WS('|', {texts})")


def ghost(
    evaluator: MacroEvaluator,
    what: str = "unknown",
    algorithm: str = "",
    form: str = "",
    time_type: str = "",
) -> str:
    """`@GHOST()`: the zero key, as a literal; `@GHOST('error')` is the key of all ones.

    Args:
        what: `unknown`, `error`, or `time`: the load date of ghosts, 1900-01-01 in UTC.
        time_type: Type of load dates; by default the variable `vault_time_type`, or TIMESTAMP.
    """
    _require_choice(evaluator, "the first argument", what, ("unknown", "error", "time"))
    digest = _choose_digest(evaluator, algorithm, form)
    if what == "time":
        name = (time_type or str(evaluator.var("vault_time_type", "timestamp"))).lower()
        _require_choice(evaluator, "time_type", name, tuple(BEGINNING))
        return BEGINNING[name]
    return digest.zero_key if what == "unknown" else digest.error_key


BEGINNING = {
    "timestamp": "TIMESTAMP '1900-01-01 00:00:00Z'",
    "timestamp_ntz": "TIMESTAMP_NTZ '1900-01-01 00:00:00'",
    "date": "DATE '1900-01-01'",
}
"""Load date of ghosts, by type: a union with another type would change the column's type."""


class HashedPart(NamedTuple):
    """A column or expression to hash, with its alias or column name, if any."""

    name: str | None
    value: str


def _parse_parts(
    evaluator: MacroEvaluator, macro: str, arguments: Sequence[SQL]
) -> list[HashedPart]:
    if not arguments:
        raise evaluator.error(f"@{macro} takes at least one column", f"write @{macro}(a, b)")
    parts = []
    for argument in arguments:
        text = argument.strip()
        aliased, column = _ALIAS.fullmatch(text), _COLUMN.fullmatch(text)
        found = aliased or column
        name = found["name"].strip("`") if found else None
        value = aliased["value"] if aliased else text
        parts.append(HashedPart(name, evaluator.bracketed(value)))
    return parts


def canonical_text(evaluator: MacroEvaluator, value: str) -> str:
    """Write the SQL of a value's canonical text. Hashes are computed from this text."""
    # An explicit CAST shows the type. The written SQL then runs on other engines, too. Otherwise a
    # CASE tests TYPEOF, which is constant, so Spark chooses the branch while it plans.
    from sqlglot import exp

    tree = evaluator.parse_one(value).unnest()
    type_ = tree.to if isinstance(tree, exp.Cast) else None
    if type_ is not None and type_.this.name in _PLAIN_TYPES:
        return f"CAST({value} AS STRING)"
    if type_ is not None and type_.this is exp.DataType.Type.DECIMAL:
        return _decimal_text(value, [int(size.name) for size in type_.expressions])
    return (
        f"CASE WHEN {value} IS NULL THEN NULL"
        f" WHEN TYPEOF({value}) RLIKE '^(timestamp|binary|array|map|struct|variant)'"
        f" THEN REGEXP_REPLACE(TO_JSON(NAMED_STRUCT('v', {value}), MAP({_JSON_OPTIONS})),"
        " '^.{5}\"?|\"?.$', '')"
        f" WHEN TYPEOF({value}) LIKE 'decimal%'"
        f" THEN REGEXP_REPLACE(CAST({value} AS STRING), '([.][0-9]*[1-9])0+$|[.]0+$', '$1')"
        f" WHEN TYPEOF({value}) IN ('float', 'double')"
        f" THEN REGEXP_REPLACE(CAST({value} AS STRING), '^-0[.]0$', '0.0')"
        f" ELSE CAST({value} AS STRING) END"
    )


def _decimal_text(value: str, sizes: Sequence[int]) -> str:
    text = f"CAST({value} AS STRING)"
    if len(sizes) < 2 or not sizes[1]:
        return text
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"


def _escape(text: str) -> str:
    return f"REPLACE(REPLACE({text}, '~', '~0'), '|', '~1')"


def _escape_name(name: str) -> str:
    for sign, written in (("~", "~0"), ("|", "~1"), ("=", "~2"), ("'", "~3"), ("\\", "~4")):
        name = name.replace(sign, written)
    return name


def _choose_digest(evaluator: MacroEvaluator, algorithm: str, form: str) -> Digest:
    name = (algorithm or str(evaluator.var("vault_hash", "md5"))).lower()
    _require_choice(evaluator, "algorithm", name, tuple(ALGORITHMS))
    form = (form or str(evaluator.var("vault_hash_form", "text"))).lower()
    _require_choice(evaluator, "form", form, ("text", "binary"))
    return Digest(name, binary=form == "binary")


def _choose_rules(
    evaluator: MacroEvaluator, compat: str, case_sensitive: bool | None
) -> compatible.Rules | None:
    name = (compat or str(evaluator.var("vault_compat", ""))).lower()
    if name:
        _require_choice(evaluator, "compat", name, tuple(compatible.RULES))
        return compatible.RULES[name]._replace(case_sensitive=case_sensitive)
    if case_sensitive is not None:
        raise evaluator.error(
            "case_sensitive needs a compat mode", "write UPPER(TRIM(a)) to unify keys"
        )
    return None


def _require_choice(evaluator: MacroEvaluator, what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise evaluator.error(f"{what} cannot be '{given}'", suggest(given, known, "values"))
