"""The table of types of functions, made of what Spark answers to probes.

A pattern of the table covers what Spark answered alike for all probes of its letters, with ANSI
mode and without. A letter stands for columns and for literals of its type.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import data_type
from vde_dagster.semantics.function_types import (
    ANY,
    CLASSES,
    LAMBDA,
    MANY,
    NULL,
    SAME,
    encode_argument_types,
    find_rows,
)
from vde_dagster_tests.spark.function_probes import (
    COLUMNS,
    LITERALS,
    MODES,
    MOST_ARGUMENTS,
    NULLS,
    OPERATORS,
    WITH_LAMBDA,
    Probe,
    SparkTypes,
    call_text,
    counts,
    errors_of_java,
    probes,
    random_probes,
    units,
)
from vde_dagster_tests.spark.registry import EVERYTHING, settings


@dataclass(frozen=True, slots=True)
class Answer:
    """Arguments and the type of the call with them."""

    given: tuple[Probe, ...]
    type: str


def answers(spark: SparkTypes, name: str, given: Iterable[tuple[Probe, ...]]) -> list[Answer]:
    """Return Spark's answers to the calls that it takes."""
    found: list[Answer] = []
    listed = list(given)
    for at in range(0, len(listed), 250):
        part = listed[at : at + 250]
        types = spark.ask([call_text(name, [p.text for p in one]) for one in part])
        found += [Answer(one, kind) for one, kind in zip(part, types, strict=True) if kind]
    return found


Letters = tuple[str, ...]


def letters_of(given: tuple[Probe, ...], types: dict[str, str]) -> Letters:
    """Return the letters of arguments, with `SAME` for one whose type stood before."""
    text = encode_argument_types(
        [p.letter if len(p.letter) == 1 else NULL for p in given],
        [types.get(p.text) for p in given],
    )
    made = list(text or "")
    return tuple(p.letter if len(p.letter) > 1 else m for p, m in zip(given, made, strict=True))


def results(found: Sequence[Answer], types: dict[str, str]) -> dict[Letters, set[str]]:
    """Return the results that hold for all answers to the same letters."""
    alike: dict[Letters, list[Answer]] = {}
    for answer in found:
        alike.setdefault(letters_of(answer.given, types), []).append(answer)
    return {
        letters: set.intersection(*(_possible(answer, types) for answer in some))
        for letters, some in alike.items()
        if _are_enough(letters, some, types)
    }


def _are_enough(letters: Letters, found: Sequence[Answer], types: dict[str, str]) -> bool:
    """Return whether answers differ in all that the letters stand for.

    A letter of a class needs two types of it, and one that is taken as a literal only two texts.
    """
    for place, letter in enumerate(letters):
        given = [answer.given[place] for answer in found]
        if letter in CLASSES and len({types.get(p.text) for p in given}) < 2:
            return False
        as_literal = letter != NULL and not any(p.type or len(p.letter) > 1 for p in given)
        if as_literal and len({p.text for p in given}) < 2:
            return False
    return True


def _possible(answer: Answer, types: dict[str, str]) -> set[str]:
    """Return the forms of results that give the type of an answer."""
    if answer.type == "VOID" or data_type(answer.type) is None:
        return set()
    found = {answer.type}
    for n, probe in enumerate(answer.given, 1):
        forms = {
            f"={n}": types.get(probe.text),
            f"@{n}": f"ARRAY<{types.get(probe.text)}>",
            f".{n}": probe.element,
            f"k{n}": probe.key,
            f"v{n}": probe.value,
        }
        if probe.letter not in (NULL, LAMBDA) and len(probe.letter) == 1:
            found |= {form for form, kind in forms.items() if kind == answer.type}
    return found


def table_lines(name: str, made: dict[Letters, set[str]]) -> list[str]:
    """Write the results of one number of arguments, by their letters, as lines of the table."""
    left = {letters: possible for letters, possible in made.items() if possible}
    left = {letters: some for letters, some in left.items() if not {"c", "r"} & {*letters}}
    lines: list[str] = []
    while left:
        best, _ = max(Counter(chain(*left.values())).items(), key=lambda item: (item[1], item[0]))
        covered = [letters for letters, possible in left.items() if best in possible]
        lines.append(f"{name}\t{best}\t{' '.join(merged_patterns(covered))}")
        left = {letters: possible for letters, possible in left.items() if best not in possible}
    return lines


def merged_patterns(covered: Sequence[Letters]) -> list[str]:
    """Write patterns that match exactly these letters."""
    rows = [tuple(frozenset({letter}) for letter in letters) for letters in covered]
    for place in reversed(range(len(rows[0]))):
        together: dict[Any, frozenset[str]] = {}
        for row in rows:
            units = any(len(letter) > 1 for letter in row[place])
            others = (*row[:place], units, *row[place + 1 :])
            together[others] = together.get(others, frozenset()) | row[place]
        rows = [(*o[:place], merged, *o[place + 1 :]) for o, merged in together.items()]
    return sorted(write_pattern(row) for row in rows)


def probed_types(spark: SparkTypes) -> dict[str, str]:
    """Return Spark's types of the probes by their texts."""
    listed = [*COLUMNS, *NULLS, *LITERALS]
    found = spark.ask([p.text for p in listed])
    return {p.text: kind for p, kind in zip(listed, found, strict=True) if kind is not None}


def function_lines(spark: SparkTypes, session: Any, name: str, types: dict[str, str]) -> list[str]:
    """Return the lines of one function."""
    lines: list[str] = []
    free: dict[int, str] = {}
    for count in counts(name):
        found = asked_in_modes(spark, session, name, probes(name, count))
        texts = {answer.type for answer in found}
        if len(texts) == 1 and not units(name, count) and (count == 0 or len(found) > 2):
            free[count] = texts.pop()
        else:
            lines += table_lines(name, results(found, types))
    free = {n: kind for n, kind in free.items() if kind != "VOID" and data_type(kind) is not None}
    last = free.get(MOST_ARGUMENTS)
    many = last is not None and _takes_any_number(spark, session, name, last)
    for count, kind in free.items():
        lines.append(f"{name}\t{kind}\t{write_pattern([frozenset({ANY})] * count)}")
    if many:
        pattern = write_pattern([frozenset({ANY})] * MOST_ARGUMENTS, many=True)
        lines.append(f"{name}\t{last}\t{pattern}")
    elif name in _OF_TEXTS:
        lines += _lines_of_texts(spark, session, name)
    return lines


_PLACED = [p for p in COLUMNS if p.letter in {*"ilsydfetoaznb"} and not p.rare]
_SOME_LITERALS = {"1", "0.5", "1.0", "'a'", "'1'", "'2020-01-01'", "'year'", "true"}
_MORE_LITERALS = {
    "l": "1L",
    "s": "1S",
    "y": "1Y",
    "d": "1.0D",
    "f": "1.0F",
    "b": "X'61'",
    "a": "DATE'2020-01-01'",
    "z": "TIMESTAMP'2020-01-01 00:00:00'",
    "n": "TIMESTAMP_NTZ'2020-01-01 00:00:00'",
}
_AS_LITERAL = [
    *(p for p in LITERALS if p.text in _SOME_LITERALS),
    *(Probe(letter, text) for letter, text in _MORE_LITERALS.items()),
    *(Probe(letter, f"0.5{letter.upper()}") for letter in "df"),
]
_OTHER_PLACES = [
    *_AS_LITERAL,
    *NULLS,
    *(p for p in COLUMNS if p.letter in CLASSES or not p.rare),
    *(Probe("@", f"array({p.text})") for p in _PLACED),
    *(Probe("%", f"map({p.text}, {p.text})") for p in _PLACED),
]
_ENOUGH = 62
"""How many other arguments are tried before a function that takes none of them is left."""


def refusal_line(spark: SparkTypes, session: Any, name: str) -> str | None:
    """Return the line of letters that Spark refuses at a place, whatever the other arguments are.

    One and two arguments are tried: columns and literals at the place, values of all types at the
    other one.
    """
    patterns: list[str] = []
    for count in counts(name):
        if count not in (1, 2) or units(name, count) or name in WITH_LAMBDA:
            continue
        if not any(row.allows(count) for row in find_rows(name)):
            continue  # Spark's analyzer does not end for `bucket(1)`.
        if name in OPERATORS:
            patterns += _refused_operands(spark, session, name, count)
            continue
        for place in range(count):
            refused = _refused_letters(spark, session, name, count, place)
            if refused and (count == 1 or len(refused) < len(_PLACED)):
                places = [frozenset({ANY})] * count
                places[place] = refused
                patterns.append(write_pattern(places))
    return f"{name}\t{' '.join(patterns)}" if patterns else None


def _refused_operands(spark: SparkTypes, session: Any, name: str, count: int) -> list[str]:
    """Return the patterns of exactly those operands with which no expression is taken."""
    given = list(product([*_PLACED, *_AS_LITERAL], repeat=count))
    left = set(product([p.letter for p in _PLACED], repeat=count))
    for mode in MODES.values():
        with settings(session, mode | EVERYTHING), errors_of_java():
            found = answers(spark, name, given)
            left -= {tuple(probe.letter for probe in answer.given) for answer in found}
    return merged_patterns(sorted(left)) if left else []


def _refused_letters(
    spark: SparkTypes, session: Any, name: str, count: int, place: int
) -> frozenset[str]:
    """Return the letters with which no call is taken in any mode."""
    others = list(product(_OTHER_PLACES, repeat=count - 1))
    left = frozenset(p.letter for p in _PLACED)
    at, size = 0, 2
    while at < len(others) and left and (at < _ENOUGH or len(left) < len(_PLACED)):
        given = [
            (*rest[:place], probe, *rest[place:])
            for probe in [*_PLACED, *_AS_LITERAL]
            if probe.letter in left
            for rest in others[at : at + size]
        ]
        for mode in MODES.values():
            with settings(session, mode | EVERYTHING), errors_of_java():
                left -= {answer.given[place].letter for answer in answers(spark, name, given)}
        at, size = at + size, 2 * size
    return left


_OF_TEXTS = frozenset({"concat", "concat_ws", "format_string"})
"""Functions that make a STRING of any number of values, but for those of a few types."""
_WITHOUT_COLLATION = frozenset({*"adefhijlnopqstuvyz", SAME})


def _lines_of_texts(spark: SparkTypes, session: Any, name: str) -> list[str]:
    """Return the line of arguments that are mixed in any number, if they make a STRING."""
    every = [p for p in [*COLUMNS, *NULLS, *LITERALS] if p.letter in _WITHOUT_COLLATION]
    rng = random.Random(name)
    given = [
        tuple(rng.choice(every) for _ in range(number))
        for number in range(1, 13)
        for _ in range(80)
    ]
    found = asked_in_modes(spark, session, name, given)
    if len(found) < len(given) / 2 or {answer.type for answer in found} != {"STRING"}:
        return []
    return [f"{name}\tSTRING\t{write_pattern([_WITHOUT_COLLATION], many=True)}"]


def _takes_any_number(spark: SparkTypes, session: Any, name: str, kind: str) -> bool:
    """Return whether a function has one type with more arguments than are tried one by one."""
    if name in OPERATORS or spark_functions.argument_counts(name)[1] is not None:
        return False
    more = asked_in_modes(spark, session, name, random_probes(MOST_ARGUMENTS, random.Random(name)))
    return {answer.type for answer in more} == {kind}


def asked_in_modes(
    spark: SparkTypes, session: Any, name: str, given: Iterable[tuple[Probe, ...]]
) -> list[Answer]:
    """Return the answers of all modes; of arguments whose types differ there are two."""
    listed = list(dict.fromkeys(given))
    found: dict[Answer, None] = {}
    for mode in MODES.values():
        with settings(session, mode | EVERYTHING), errors_of_java():
            found |= dict.fromkeys(answers(spark, name, listed))
        # What the first mode refuses is asked for in part: most of it is refused again.
        taken = {answer.given for answer in found}
        listed = [one for n, one in enumerate(listed) if one in taken or n % 7 == 0]
    return list(found)


def write_pattern(places: Sequence[frozenset[str]], *, many: bool = False) -> str:
    """Write a pattern in the form of `function_types.read_pattern`."""
    texts: list[str] = []
    for place in places:
        ordered = sorted(place)
        if any(len(one) > 1 for one in ordered):
            texts.append("{" + ",".join(ordered) + "}")
        else:
            texts.append(ordered[0] if len(ordered) == 1 else f"[{''.join(ordered)}]")
    return ("".join(texts) or "()") + MANY * many
