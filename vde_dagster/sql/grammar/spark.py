"""Spark's own grammar, read from the classes of the Spark that is installed.

ANTLR compiles `SqlBaseParser.g4` and `SqlBaseLexer.g4` into networks that the classes carry as
text, so that nothing of the grammar is copied here, and no JVM is asked.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from vde_dagster.sql.grammar.compiled import (
    END,
    RULE,
    ClassFile,
    Edge,
    Network,
    UnknownFormat,
    read_network,
    spark_jar,
)
from vde_dagster.sql.grammar.lexer import Lexeme, Lexer
from vde_dagster.sql.grammar.literals import malformed
from vde_dagster.sql.grammar.recogniser import Barred, Recogniser

_PACKAGE = "org/apache/spark/sql/catalyst/parser/"
_ON = frozenset({"parameter_substitution_enabled"})
"""Settings of Spark's parser that are on unless somebody says otherwise; all others are off."""
_BARRED = {
    "errorCapturingIdentifierExtra": ("MINUS",),
    "errorCapturingNot": ("BANG",),
    "errorCapturingMultiUnitsInterval": ("unitToUnitInterval",),
    "errorCapturingUnitToUnitInterval": ("multiUnitsInterval",),
    "literalType": ("identifier",),
    "primitiveType": ("identifier",),
    "transformClause": ("setQuantifier",),
}
"""Rules that take what Spark refuses behind its grammar, to say so better; and what of it."""
_UNFINISHED = {
    "dataType": ("ARRAY", "MAP", "STRUCT"),
    "nonTrivialPrimitiveType": ("CHAR", "CHARACTER", "VARCHAR"),
    "sampleMethod": ("expression",),
}
"""Rules that may end where Spark refuses that behind its grammar; and behind what."""
_QUERY = "query"
_MOST = 2_000
"""How many queries' tokens are remembered: those of many models are the same."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The place at which Spark's grammar refuses a text.

    Args:
        start: The offset of the token that it does not take; that of the end of the text.
        text: The token; "" at the end.
        expected: What could stand there; all names are one of them.
    """

    start: int
    end: int
    text: str
    expected: tuple[str, ...]


class SparkGrammar:
    """The grammar of one Spark."""

    def __init__(self, parser: ClassFile, lexer: ClassFile) -> None:
        network = read_network(_network_text(parser))
        self._tokens = {
            name: number for name, number in parser.integers.items() if not name.startswith("RULE_")
        }
        self._names = {number: name for name, number in self._tokens.items()}
        self._rules = {
            name.removeprefix("RULE_"): number
            for name, number in parser.integers.items()
            if name.startswith("RULE_")
        }
        tests = parser.tests("_sempred")
        on = {number: (test.name in _ON) is not test.negated for number, test in tests.items()}
        _without_aliases(network, self._rules)
        for rule, names in _UNFINISHED.items():
            for name in names:
                called = name in self._rules
                last = (self._rules if called else self._tokens).get(name, END)
                _go_on(network, self._rules[rule], last, called=called)
        barred = {
            self._rules[rule]: Barred(
                [self._tokens[name] for name in names if name in self._tokens],
                [self._rules[name] for name in names if name in self._rules],
            )
            for rule, names in _BARRED.items()
            if rule in self._rules
        }
        self._recogniser = Recogniser(network, lambda number: on.get(number, True), barred)
        self._known: dict[tuple[int, ...], tuple[int, int] | None] = {}
        guards = {n: (test.name, test.negated) for n, test in lexer.tests("_sempred").items()}
        spelling = read_network(_network_text(lexer))
        self._lexer = Lexer(spelling, guards, self._tokens)
        self._spelling = _spelled(spelling)
        self._of_names = self._recogniser.beginnings(self._rules["identifier"])

    def refusal(self, text: str) -> Refusal | None:
        """Return the place at which the grammar refuses a query, if it does."""
        lexemes = list(self._lexer.tokens(text))
        kinds = tuple(one.kind for one in lexemes)
        if kinds not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[kinds] = self._recogniser.furthest(self._rules[_QUERY], kinds)
        found = self._known[kinds]
        if found is None:
            return self._malformed(text, lexemes)
        at, mask = found
        if at == len(lexemes):
            lexemes.append(Lexeme(0, len(text), len(text)))
        start, end = lexemes[at][1:]
        return Refusal(start, end, text[start:end], tuple(self._expected(mask)))

    def _malformed(self, text: str, lexemes: Sequence[Lexeme]) -> Refusal | None:
        found = malformed([text[one.start : one.end] for one in lexemes])
        if found is None:
            return None
        start, end = lexemes[found.start].start, lexemes[found.end - 1].end
        return Refusal(start, end, text[start:end], (found.example,))

    def _expected(self, mask: int) -> Iterator[str]:
        name = 1 << self._tokens["IDENTIFIER"]
        if mask & name:
            yield "a name"
            mask &= ~self._of_names
        for number in range(1, mask.bit_length()):
            if mask >> number & 1:
                yield self._spelling.get(number) or self._names[number].replace("_", " ")


@lru_cache(maxsize=1)
def spark_grammar() -> SparkGrammar | None:
    """Read the grammar of the Spark that is installed; None where it cannot be read."""
    jar = spark_jar()
    if jar is None:
        return None
    try:
        with zipfile.ZipFile(jar) as classes:
            parser = ClassFile(classes.read(f"{_PACKAGE}SqlBaseParser.class"))
            lexer = ClassFile(classes.read(f"{_PACKAGE}SqlBaseLexer.class"))
        return SparkGrammar(parser, lexer)
    except (OSError, KeyError, ValueError, IndexError, zipfile.BadZipFile, UnknownFormat):
        return None


def _network_text(one: ClassFile) -> str:
    return "".join(text for name, text in one.texts.items() if name.startswith("_serializedATN"))


def _without_aliases(network: Network, rules: Mapping[str, int]) -> None:
    """Let GROUP BY name its expressions behind `|>` only, as Spark does."""
    clause, named = rules["aggregationClause"], rules["namedExpression"]
    plain = rules["expression"]
    own = [state for state, rule in enumerate(network.rule_of) if rule == clause]
    copies = {state: len(network.edges) + number for number, state in enumerate(own)}
    for state in own:
        copied = []
        for edge in network.edges[state]:
            edge = edge._replace(target=copies[edge.target])
            if edge.kind == RULE and edge.second == named:
                edge = edge._replace(first=network.starts[plain], second=plain)
            copied.append(edge)
        network.edges.append(copied)
        network.rule_of.append(clause)
        if state in network.stops:
            network.stops.add(copies[state])
    start = copies[network.starts[clause]]
    for state, edges in enumerate(network.edges):
        if network.rule_of[state] != rules["operatorPipeRightSide"]:
            network.edges[state] = [
                edge._replace(first=start) if edge.kind == RULE and edge.second == clause else edge
                for edge in edges
            ]


def _go_on(network: Network, rule: int, last: int, *, called: bool) -> None:
    """Let a rule not end behind a token, or behind another rule that it calls."""

    def ends(state: int) -> bool:
        return state in network.stops or any(map(skips, network.edges[state]))

    def skips(edge: Edge) -> bool:
        return edge.kind != RULE and not edge.symbols and ends(edge.target)

    for state, of in enumerate(network.rule_of):
        for edge in list(network.edges[state]) if of == rule else ():
            symbols = ((edge.second, edge.second),) if edge.kind == RULE else edge.symbols
            if (edge.kind == RULE) != called or not any(x <= last <= y for x, y in symbols):
                continue
            others = [one for one in network.edges[edge.target] if not skips(one)]
            if others:
                network.edges[edge.target] = others
            elif ends(edge.target):
                network.edges[state].remove(edge)


def _spelled(network: Network) -> dict[int, str]:
    """The spelling of tokens that have only one."""
    found: dict[int, str] = {}
    for token, start in zip(network.token_types, network.starts, strict=True):
        at, word = start, ""
        while at not in network.stops:
            if len(network.edges[at]) != 1:
                break
            edge = network.edges[at][0]
            if edge.symbols and edge.symbols[0][0] == edge.symbols[-1][1]:
                word += chr(edge.symbols[0][0])
            elif edge.symbols or edge.kind == RULE:
                break
            at = edge.target
        else:
            found.setdefault(token, word)
    return found
