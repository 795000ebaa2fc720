"""Variants near the rules of versions: pairs of queries that nearly are what a rule takes for one.

Every rule has an example pair in a fixture (`spark_optimizer.yaml`, `rule_pairs.yaml` and
`near_rules.yaml`). A variant changes both sides alike (a column to one of another type, a literal
to one at the edge of a type, a comparison, a function, a join, the text around the expression), or
only one side. Two variants of one version must have one answer, in every session.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vde_dagster.semantics.versions.version import SemanticVersion, leaf_version
from vde_dagster_tests.semantics.near_rules import NEAR_PAIRS
from vde_dagster_tests.semantics.optimizer_pairs import PAIRS
from vde_dagster_tests.yaml_files import read_yaml

_FILE = Path(__file__).parents[1] / "fixtures" / "semantics" / "rule_pairs.yaml"
_READ: dict[str, Any] = read_yaml(_FILE)
SCHEMA: dict[str, dict[str, str]] = _READ["tables"]
KEYS: dict[str, list[list[str]]] = _READ["keys"]
PARENTS: dict[str, SemanticVersion] = {
    name: replace(leaf_version(name, kinds), unique_keys=tuple(map(frozenset, KEYS.get(name, ()))))
    for name, kinds in SCHEMA.items()
}
_FORMS = {"value": "SELECT {} AS x FROM t", "where": "SELECT id FROM t WHERE {}", "query": "{}"}


@dataclass(frozen=True, slots=True)
class Example:
    """A pair of queries near a rule.

    Args:
        name: Its file's section, and its number there.
        form: `value` of an expression over `t`, `where` of a condition, or a whole `query`.
    """

    name: str
    form: str
    one: str
    other: str

    def queries(self) -> tuple[str, str]:
        """Both sides as whole queries."""
        return _FORMS[self.form].format(self.one), _FORMS[self.form].format(self.other)


def _listed(key: str) -> Iterator[Example]:
    for section, cases in _READ[key].items():
        for number, case in enumerate(cases, 1):
            ((form, (one, other)),) = case.items()
            yield Example(f"{section} {number} of {key}", form, one, other)


ONE_VERSION = list(_listed("pairs"))
"""Pairs that have one version."""


def _examples() -> Iterator[Example]:
    yield from ONE_VERSION
    yield from _listed("apart")
    for pair in PAIRS:
        yield _shortest(pair.name, pair.one, pair.other)
    for near in NEAR_PAIRS:
        if " u " not in near.one + near.other and "VALUES" not in near.one:
            renamed = [_of_t(text) for text in (near.one, near.other)]
            yield _shortest(near.name, *renamed)


_RENAMED = {
    "e": "t",
    "region": "s",
    "product": "u",
    "amount": "k",
    "dt": "p",
    "ts": "q",
    "tn": "h",
    "b": "k",
    "f": "b",
    "u": "r",
}


def _of_t(text: str) -> str:
    """A query over the tables of `near_rules.yaml` as one over those of this module."""
    return re.sub(r"\b[a-z]+\b", lambda word: _RENAMED.get(word[0], word[0]), text)


def _shortest(name: str, one: str, other: str) -> Example:
    for form in ("value", "where"):
        before, after = _FORMS[form].split("{}")
        if all(t.startswith(before) and t.endswith(after) for t in (one, other)):
            cut = [t[len(before) : len(t) - len(after)] for t in (one, other)]
            return Example(name, form, *cut)
    return Example(name, "query", one, other)


EXAMPLES = list(_examples())

_COLUMNS = {name: kind for kinds in SCHEMA.values() for name, kind in kinds.items()}
_NUMBERS = ("i", "j", "k", "n", "y", "d", "f", "e")
_TIMES = ("p", "q", "h")
_NUMBER_LITERALS = (
    *("0", "1", "2", "5", "-1", "2147483647", "-2147483648", "2147483648", "1L", "2S", "1Y", "1.0"),
    *("0.0", "-0.0D", "1D", "2.5", "0.5BD", "1e0", "9223372036854775807", "NULL"),
    "CAST('NaN' AS DOUBLE)",
)  # fmt: skip
_TEXTS = (
    *("''", "'a'", "'b'", "'ab'", "'A'", "' a '", "'1'", "'01'", "'1.0'", "'x'", "'%'", "'a%'"),
    *("'%b'", "'_'", "'2024-02-24'", "'2024-02-24 10:00:00'", "'2024-2-24'", "'true'", "'NaN'"),
    *("'2147483648'", "'-0'", "NULL", "CAST(NULL AS STRING)", "CAST(NULL AS INT)"),
    *("DATE '2024-02-24'", "TIMESTAMP '2024-02-24 00:00:00'", "'9999-12-31'"),
)  # fmt: skip
_TYPES = (
    *("INT", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(10, 2)", "DECIMAL(4, 0)"),
    *("STRING", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "BINARY"),
)
_ALIKE = [
    ("=", "<=>", "<>", "<", "<=", ">", ">="),
    ("+", "-", "*", "/", "%"),
    ("AND", "OR"),
    ("min", "max", "sum", "count", "avg", "first", "any_value", "collect_set", "count_if"),
    ("lower", "upper", "trim", "ltrim", "rtrim", "initcap", "reverse", "length"),
    ("lpad", "rpad"),
    ("startswith", "endswith", "contains"),
    ("coalesce", "nvl", "ifnull", "greatest", "least", "nullif"),
    ("date_add", "date_sub", "add_months"),
    ("year", "month", "day", "dayofweek", "weekofyear", "hour", "minute", "second"),
    ("YEAR", "MONTH", "WEEK", "DAY", "DOW", "HOUR", "SECOND"),
    ("to_date", "to_timestamp", "year"),
    ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"),
    ("UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"),
    ("ROLLUP", "CUBE"),
    ("EXISTS", "NOT EXISTS"),
    ("IN", "NOT IN"),
    ("LIKE", "ILIKE", "NOT LIKE"),
    ("IS NULL", "IS NOT NULL"),
    ("TRUE", "FALSE", "NULL", "CAST(NULL AS BOOLEAN)"),
    ("CAST", "TRY_CAST"),
    ("DISTINCT", "ALL"),
    ("round", "bround", "ceil", "floor", "abs"),
]  # fmt: skip
_GROUPS: dict[str, tuple[str, ...]] = {}
for _group in _ALIKE:
    for _word in _group:
        _GROUPS.setdefault(_word, _group)
_SPACED = sorted((w for w in _GROUPS if " " in w), key=len, reverse=True)
_TOKENS = re.compile(
    "|".join(re.escape(word) for word in _SPACED)
    + r"|DECIMAL\(\d+, \d+\)|CAST\('NaN' AS DOUBLE\)|CAST\(NULL AS \w+\)|(?:DATE|TIMESTAMP) '[^']*'"
    + r"|'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*|\d+(?:\.\d+)?(?:[eE]\d+)?[A-Za-z]*|<=>|<>|<=|>=|\|\||\s+|."
)
_AROUND_VALUES = (
    *("({}) IS NULL", "coalesce({}, {lit})", "({}) <=> {lit}", "({}) = {lit}"),
    "({}) IN ({lit}, {lit2})",
    *("CASE WHEN ({}) IS NULL THEN 1 ELSE 2 END", "NOT ({})", "CASE WHEN {} THEN {col} END"),
    *("CAST({} AS {type})", "CAST({} AS STRING)", "({}) AND b", "({}) OR c", "IF(b, {}, {col})"),
    *("nullif({}, {lit})", "concat({}, 'z')", "struct({} AS m, {col} AS o).m"),
    "array({}, {col})[0]",
    *("({}) + 0", "({}) * 1", "({}) <=> NULL", "coalesce({}, CAST(NULL AS {type}))", "({}) < ({})"),
)  # fmt: skip
_AS_QUERIES = (
    "SELECT {} AS x, count(*) AS n FROM t GROUP BY {}",
    "SELECT {} AS x, i, count(*) AS n FROM t GROUP BY ROLLUP({}, i)",
    "SELECT x, i, count(*) AS n FROM (SELECT {} AS x, i FROM t) GROUP BY CUBE(i, x)",
    "SELECT count({}) AS n, max({}) AS m FROM t",
    "SELECT count(DISTINCT {}) AS n, min({}) AS m FROM t WHERE {cond}",
    "SELECT id, {} AS x FROM t WHERE {cond}",
    "SELECT id, {} AS x FROM t WHERE ({}) IS NOT NULL",
    "SELECT t.id, r.s AS x FROM t LEFT JOIN r ON ({}) <=> r.id",
    "SELECT id, x FROM (SELECT id, {} AS x FROM t ORDER BY id LIMIT 40) WHERE x IS NOT NULL",
    "SELECT id, count({}) OVER (PARTITION BY i) AS x FROM t",
    "SELECT id FROM t WHERE ({}) = ({})",
    "SELECT DISTINCT {} AS x FROM t",
    "SELECT {} AS x FROM t INTERSECT SELECT {} FROM t WHERE b",
    "SELECT i, sum(CASE WHEN ({}) IS NULL THEN 1 END) AS x FROM t GROUP BY i HAVING count(*) > 0",
    "SELECT i, x FROM (SELECT i, {} AS x FROM t UNION ALL SELECT i, {} FROM t WHERE b) WHERE i > 1",
    "SELECT id, max({}) OVER (PARTITION BY i ORDER BY {} ROWS BETWEEN UNBOUNDED PRECEDING AND "
    "UNBOUNDED FOLLOWING) AS x FROM t",
)  # fmt: skip
_AS_CONDITIONS = (
    "SELECT id FROM t WHERE {}",
    "SELECT id FROM t WHERE NOT ({})",
    "SELECT id FROM t WHERE {cond} AND ({})",
    "SELECT id FROM t WHERE {cond} OR ({})",
    "SELECT id, CASE WHEN {} THEN i ELSE j END AS x FROM t",
    "SELECT count_if({}) AS n, sum(k) FILTER (WHERE {}) AS m FROM t",
    "SELECT t.id, r.k AS z FROM t JOIN r ON t.i = r.id AND ({t})",
    "SELECT t.id, r.k AS z FROM t LEFT JOIN r ON t.i = r.id AND ({t})",
    "SELECT i, count(*) AS n FROM t WHERE {} GROUP BY ROLLUP(i, j)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM r WHERE r.id = t.i AND ({t}))",
)
_CONDITIONS = (
    *("i = 1", "s = 'a'", "i = j", "i IS NOT NULL", "d = 0", "i > 1 AND k = i", "b"),
    "p = '2024-02-24'",
)


class Variants:
    """Makes variants of the examples.

    Args:
        rng: Source of chance.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def pair(self) -> Example:
        """A variant of some example."""
        return self.near(self._rng.choice(EXAMPLES))

    def near(self, example: Example) -> Example:
        """A variant of one example."""
        rng = self._rng
        one, other = _TOKENS.findall(example.one), _TOKENS.findall(example.other)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))):
            changed = self._change([*one, *other])
            if changed is not None:
                old, new = changed
                one, other = ([new if t == old else t for t in side] for side in (one, other))
        if rng.random() < 0.25:
            one, other = self._on_one_side(one, other)
        left, right = "".join(one), "".join(other)
        form = example.form
        if form == "value":
            for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
                around = self._filled(rng.choice(_AROUND_VALUES))
                left, right = around.replace("{}", left), around.replace("{}", right)
        if form != "query" and rng.random() < 0.35:
            form, left, right = self._as_query(form, left, right)
        return Example(example.name, form, left, right)

    def _as_query(self, form: str, left: str, right: str) -> tuple[str, str, str]:
        forms = _AS_QUERIES if form == "value" and self._rng.random() < 0.7 else _AS_CONDITIONS
        around = self._filled(self._rng.choice(forms))
        made = [around.replace("{t}", _qualified(s)).replace("{}", s) for s in (left, right)]
        return "query", made[0], made[1]

    def _filled(self, around: str) -> str:
        rng = self._rng
        literals = rng.choice((_NUMBER_LITERALS, _TEXTS))
        return (
            around.replace("{lit}", rng.choice(literals))
            .replace("{lit2}", rng.choice(literals))
            .replace("{col}", rng.choice(list(_COLUMNS)))
            .replace("{type}", rng.choice(_TYPES))
            .replace("{cond}", rng.choice(_CONDITIONS))
        )

    def _change(self, tokens: list[str]) -> tuple[str, str] | None:
        """A token, and another one to put in its place wherever it stands."""
        rng = self._rng
        changeable = sorted({token for token in tokens if _others(token)})
        if not changeable:
            return None
        old = rng.choice(changeable)
        new = rng.choice(_others(old))
        return old, new

    def _on_one_side(self, one: list[str], other: list[str]) -> tuple[list[str], list[str]]:
        sides = [list(one), list(other)]
        side = self._rng.choice(sides)
        places = [n for n, token in enumerate(side) if _others(token)]
        if places:
            at = self._rng.choice(places)
            side[at] = self._rng.choice(_others(side[at]))
        return sides[0], sides[1]


def _others(token: str) -> tuple[str, ...]:
    """Replacements of a token."""
    if token in _GROUPS:
        return _GROUPS[token]
    if token in _COLUMNS:
        kinds = (_NUMBERS, _TIMES, ("s", "u", "b", "c"))
        near = next((names for names in kinds if token in names), ())
        # Mostly one of a type near its own, sometimes any.
        return (*near, *near, *near, *_COLUMNS)
    if token[:1].isdigit():
        return _NUMBER_LITERALS
    if token[:1] == "'" or token.startswith(("DATE '", "TIMESTAMP '", "CAST(")):
        return _TEXTS if token[:1] != "C" else (*_TEXTS, *_NUMBER_LITERALS)
    return _TYPES if token in _TYPES else ()


def _qualified(text: str) -> str:
    """An expression over `t` beside another table of the same columns."""
    tokens = _TOKENS.findall(text)
    made = []
    for n, token in enumerate(tokens):
        before = tokens[n - 1] if n else ""
        behind = tokens[n + 1] if n + 1 < len(tokens) else ""
        column = token in _COLUMNS and before != "." and behind not in ("(", ".")
        made.append(f"t.{token}" if column and not _names(tokens, n) else token)
    return "".join(made)


def _names(tokens: list[str], at: int) -> bool:
    """Whether a token is an alias behind AS."""
    return at > 1 and tokens[at - 1].isspace() and tokens[at - 2] == "AS"
