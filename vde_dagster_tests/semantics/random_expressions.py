"""Random expressions of few words, so that many of them mean the same."""

from __future__ import annotations

import random
from collections.abc import Sequence


class Expressions:
    """Makes expressions in the SQL that Spark and DuckDB share.

    Args:
        rng: Decides.
        numbers: Columns of whole numbers.
        texts: Columns of text.
        conditions: Columns of booleans.
        floats: Columns of floats, for conditions.
        days: Columns of dates; with them also words that DuckDB has not, or reads otherwise.
    """

    def __init__(
        self,
        rng: random.Random,
        numbers: Sequence[str],
        texts: Sequence[str],
        conditions: Sequence[str] = (),
        floats: Sequence[str] = (),
        days: Sequence[str] = (),
    ) -> None:
        self._rng = rng
        self._numbers = numbers
        self._texts = texts
        self._conditions = conditions
        self._floats = floats
        self._days = days

    def any(self, depth: int = 2) -> str:
        """An expression of any type."""
        return self._rng.choice([self.condition, self.condition, self.number, self.text])(depth)

    def condition(self, depth: int = 2) -> str:
        """A boolean, in brackets."""
        rng = self._rng
        if depth < 1:
            leaves = [*self._conditions, "TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"]
            return rng.choice([*leaves, *(self._simple() for _ in range(4))])
        c, one, two = self.condition(depth - 1), self.condition(0), self.condition(depth - 1)
        i, s, lit = self.number(depth - 1), self.text(depth - 1), rng.randint(0, 2)
        made = [
            *(f"({c} AND {one})", f"({one} OR {two})", f"(NOT {c})", f"({c} = {one})"),
            *(f"(({c} AND {one}) OR ({one} AND {two}))", f"({one} AND ({one} OR {two}))"),
            *(f"({one} AND (NOT {one} OR {two}))", f"({c} <=> TRUE)", f"({c} IS NOT TRUE)"),
            *(f"({c} IS NULL)", f"COALESCE({c}, FALSE)", f"COALESCE({c}, TRUE)"),
            *(f"(CASE WHEN {c} THEN TRUE ELSE FALSE END)", f"(CASE WHEN {c} THEN {one} END)"),
            *(f"(CASE WHEN {c} THEN {one} ELSE {two} END)", f"({c} <> FALSE)"),
            *(f"({i} = {lit})", f"({i} IN ({lit}, 2))", f"({i} IS NOT NULL)", f"({i} <> {i})"),
            *(f"({i} <=> {lit})", f"({i} >= {self.number(0)})", f"({s} = 'a')", f"({s} IS NULL)"),
            *(f"(CASE {i} WHEN {lit} THEN 'a' WHEN 1 THEN 'b' END = 'a')", f"({i} <= {lit})"),
            *(f"(CASE WHEN {c} THEN NULL ELSE 1 END IS NULL)", f"(NOT {i} = {lit})"),
            f"(CASE {i} WHEN 0 THEN {lit} WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE 0 END = 1)",
            *(f"(COALESCE({i}, {lit}) > 0)", f"(COALESCE({i}, 1) <= {lit})", f"({i} = '{lit}')"),
            *(f"(COALESCE({s}, 'a') = 'a')", f"({i} % 2 = {lit})", f"({i} > 0 OR {i} IS NULL)"),
            *(f"({s} LIKE 'a%')", f"({s} NOT IN ('a', 'b'))", f"({i} = {lit} OR {i} = 2)"),
        ]
        if self._days:
            j, p = self.number(0), rng.choice(self._days)
            made += [
                *(f"(({i}, {s}) = ({lit}, 'a'))", f"({i} <=> {lit} AND {s} <=> 'a')"),
                *(f"(({i}, {j}) IN (({lit}, 1), (2, 2)))", f"({i} IN ('{lit}', '2'))"),
                *(f"(({i}, {j}) <> ({lit}, 1))", f"(NOT ({i} <=> {lit} AND {j} <=> 1))"),
                *(f"({p} + 1 > DATE '2024-02-24')", f"(date_add({p}, 1) > '2024-02-24')"),
                *(f"({i} BETWEEN {lit} AND {lit + 1})", f"({i} IN ({lit}L, {lit + 1}L))"),
                *(f"({i} = {lit}.0)", f"({i} > {lit}.00)", f"({i} NOT BETWEEN {lit} AND {lit})"),
                *(f"(left({s}, 1) = 'a')", f"startswith({s}, 'a')", f"({s} = 'a' 'b')"),
                *(f"({i} / 2 > 1)", f"(CAST({i} AS DOUBLE) / 2 > 1)"),
            ]
        return rng.choice(made)

    def number(self, depth: int = 2) -> str:
        """A whole number."""
        rng = self._rng
        if depth < 1:
            return rng.choice([*self._numbers, *self._numbers, "0", "1", "2", "CAST(NULL AS INT)"])
        c, d = self.condition(depth - 1), self.condition(0)
        i, j, k = self.number(depth - 1), self.number(0), self.number(0)
        made = [
            *(f"COALESCE({i}, {j})", f"COALESCE({j}, {k}, {i})", f"NULLIF({i}, {j})"),
            *(f"CASE WHEN {c} THEN {i} ELSE {j} END", f"CASE WHEN {c} THEN {i} END"),
            *(f"CASE WHEN {d} THEN {j} WHEN {c} THEN {k} ELSE {i} END", f"IF({c}, {j}, {k})"),
            *(f"CASE WHEN {j} IS NULL THEN {k} ELSE {j} END", f"({j} + 0)", f"({j} - 1)"),
            *(f"({j} + (-1))", f"({j} * 1)", f"CAST({i} AS INT)", f"CASE WHEN {d} THEN {k} END"),
            *(f"CASE {i} WHEN 1 THEN {j} WHEN 0 THEN 2 END", f"({j} % 2)"),
            *(f"CASE {i} WHEN 0 THEN 2 WHEN 1 THEN {j} END",) * 2,
        ]
        if self._days:
            p = rng.choice(self._days)
            made += [
                *(
                    f"year({p})",
                    f"extract(YEAR FROM {p})",
                    f"date_part('dow', {p})",
                    f"mod({j}, 2)",
                ),
                *(f"dayofweek({p})", f"DECODE({i}, 0, 2, 1, {j})", f"DECODE({i}, 1, {j}, 0, 2)"),
                *(f"datediff({p} + 1, {p})", f"datediff(date_add({p}, 1), {p})", f"round({j}, 0)"),
                *(f"datediff({p} + INTERVAL '1' DAY, {p})", f"locate('a', {self.text(0)}, 1)"),
                *(f"datediff(date_sub({p}, -1), {p})", f"locate('a', {self.text(0)})"),
                *(f"month(add_months({p}, 1))", f"month({p} + INTERVAL '1' MONTH)"),
                *(f"month({p} + INTERVAL '1 month')", f"month({p} - INTERVAL -1 MONTH)"),
            ]
        return rng.choice(made)

    def text(self, depth: int = 2) -> str:
        """A text."""
        rng = self._rng
        if depth < 1:
            return rng.choice([*self._texts, *self._texts, "'a'", "'b'", "''"])
        c, s, t = self.condition(depth - 1), self.text(depth - 1), self.text(0)
        made = [
            *(f"COALESCE({s}, {t})", f"CASE WHEN {c} THEN {s} ELSE {t} END", f"NULLIF({t}, 'a')"),
            *(f"CAST({s} AS STRING)", f"concat({s}, {t})", f"concat(concat({t}, 'a'), 'b')"),
            *(f"upper(upper({t}))", f"upper({t})", f"concat({t}, 'ab')", f"IF({c}, {t}, {t})"),
        ]
        if self._days:
            j, p = self.number(0), rng.choice(self._days)
            made += [
                *(f"concat({t}, {j})", f"concat({t}, CAST({j} AS STRING))", f"({t} || {p})"),
                *(f"concat({t}, CAST({p} AS STRING))", f"concat({t}, 1)", f"concat({t}, '1')"),
                *(f"left({t}, 2)", f"substr({t}, 1, 2)", f"lpad({t}, 3)", f"lpad({t}, 3, ' ')"),
                *(f"trim(BOTH FROM {t})", f"btrim({t})", f"trim({t})", f"replace({t}, 'a', '')"),
                *(f"DECODE({j}, 0, {t}, 1, 'b')", f"CASE {j} WHEN 1 THEN 'b' WHEN 0 THEN {t} END"),
                *(f"replace({t}, 'a')", f"CAST(to_date({p}) AS STRING)", f"CAST({p} AS STRING)"),
            ]
        return rng.choice(made)

    def _simple(self) -> str:
        rng = self._rng
        i, j, n = rng.choice(self._numbers), rng.choice(self._numbers), rng.randint(0, 2)
        made = [f"({i} > {n})", f"({i} = {n})", f"({i} IS NULL)", f"({i} < {j})", f"({i} <= {n})"]
        if self._floats:
            d, e = rng.choice(self._floats), rng.choice(self._floats)
            made += [f"({d} = {e})", f"({d} <= {n})", f"({d} > {n})", f"({d} * 1 <=> {e})"]
        return rng.choice(made)
