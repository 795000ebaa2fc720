"""The grammar of the installed Spark, read from Spark's class files.

ANTLR compiles `SqlBaseParser.g4` and `SqlBaseLexer.g4` to networks, which the class files contain
as text. Therefore the grammar need not be copied, and no JVM is needed.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from vde_dagster.sql.grammar import compiled
from vde_dagster.sql.grammar.lexer import CACHE_SIZE, Lexeme, Lexer
from vde_dagster.sql.grammar.literals import find_malformed, may_be_malformed
from vde_dagster.sql.grammar.recogniser import Exclusions, Recogniser

_PACKAGE = "org/apache/spark/sql/catalyst/parser/"
_SETTINGS_ON = frozenset({"parameter_substitution_enabled"})
"""Settings of Spark's parser that are on by default; all others are off."""
_EXCLUDED = {
    "errorCapturingIdentifierExtra": ("MINUS",),
    "errorCapturingNot": ("BANG",),
    "errorCapturingMultiUnitsInterval": ("unitToUnitInterval",),
    "errorCapturingUnitToUnitInterval": ("multiUnitsInterval",),
    "literalType": ("identifier",),
    "primitiveType": ("identifier",),
    "transformClause": ("setQuantifier",),
}
"""Tokens and rules that Spark refuses only after its grammar has accepted them, by rule."""
_UNFINISHED = {
    "dataType": ("ARRAY", "MAP", "STRUCT"),
    "nonTrivialPrimitiveType": ("CHAR", "CHARACTER", "VARCHAR"),
    "sampleMethod": ("expression",),
}
"""Tokens and rules that Spark refuses at the end of a rule, although its grammar accepts them."""
_QUERY = "query"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The place at which Spark's grammar refuses a text.

    Args:
        text: The refused token; "" at the end of the text.
        expected: Tokens that are accepted there, or a valid literal; "a name" is any identifier.
    """

    start: int
    end: int
    text: str
    expected: tuple[str, ...]


class SparkGrammar:
    def __init__(self, parser: compiled.ClassFile, lexer: compiled.ClassFile) -> None:
        network = compiled.read_network(_network_text(parser))
        self._tokens = {
            name: number for name, number in parser.integers.items() if not name.startswith("RULE_")
        }
        self._names = {number: name for name, number in self._tokens.items()}
        self._rules = {
            name.removeprefix("RULE_"): number
            for name, number in parser.integers.items()
            if name.startswith("RULE_")
        }
        tests = parser.predicates("_sempred")
        on = {
            number: (test.name in _SETTINGS_ON) is not test.negated
            for number, test in tests.items()
        }
        _forbid_aliases(network, self._rules)
        for rule, names in _UNFINISHED.items():
            for name in names:
                called = name in self._rules
                last = (self._rules if called else self._tokens).get(name, compiled.END)
                _forbid_end_after(network, self._rules[rule], last, called=called)
        barred = {
            self._rules[rule]: Exclusions(
                [self._tokens[name] for name in names if name in self._tokens],
                [self._rules[name] for name in names if name in self._rules],
            )
            for rule, names in _EXCLUDED.items()
            if rule in self._rules
        }
        self._recogniser = Recogniser(network, lambda number: on.get(number, True), barred)
        self._known: dict[tuple[int, ...], tuple[int, int] | None] = {}
        guards = {n: (test.name, test.negated) for n, test in lexer.predicates("_sempred").items()}
        spelling = compiled.read_network(_network_text(lexer))
        self._lexer = Lexer(spelling, guards, self._tokens)
        self._spelling = _read_spellings(spelling)
        self._name_tokens = self._recogniser.first_tokens(self._rules["identifier"])

    def find_refusal(self, text: str) -> Refusal | None:
        """Return the place at which the grammar refuses a query, or None if it accepts it."""
        plain = self._lexer.fast_tokens(text)
        if plain is not None and self._find_refused(plain) is None and not may_be_malformed(text):
            return None
        lexemes = self._lexer.tokens(text)
        found = self._find_refused(tuple([kind for kind, _, _ in lexemes]))
        if found is None:
            return self._check_literals(text, lexemes)
        at, mask = found
        if at == len(lexemes):
            lexemes.append((0, len(text), len(text)))
        _, start, end = lexemes[at]
        return Refusal(start, end, text[start:end], tuple(self._expected(mask)))

    def _find_refused(self, kinds: tuple[int, ...]) -> tuple[int, int] | None:
        if kinds not in self._known:
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            self._known[kinds] = self._recogniser.find_refused(self._rules[_QUERY], kinds)
        return self._known[kinds]

    def _check_literals(self, text: str, lexemes: Sequence[Lexeme]) -> Refusal | None:
        found = find_malformed([text[start:end] for _, start, end in lexemes])
        if found is None:
            return None
        (_, start, _), (_, _, end) = lexemes[found.start], lexemes[found.end - 1]
        return Refusal(start, end, text[start:end], (found.example,))

    def _expected(self, mask: int) -> Iterator[str]:
        name = 1 << self._tokens["IDENTIFIER"]
        if mask & name:
            yield "a name"
            mask &= ~self._name_tokens
        for number in range(1, mask.bit_length()):
            if mask >> number & 1:
                yield self._spelling.get(number) or self._names[number].replace("_", " ")


def find_spark_refusal(text: str) -> Refusal | None:
    """Return the place at which the installed Spark's grammar refuses a query.

    Return None if the grammar accepts the query or is not available.
    """
    installed = _installed_grammar()
    if installed.grammar is None:
        return None
    try:
        return installed.grammar.find_refusal(text)
    except Exception as error:  # Networks of other Sparks are data, whatever is wrong with them.
        installed.fail(error)
        return None


def spark_grammar() -> SparkGrammar | None:
    return _installed_grammar().grammar


class _InstalledGrammar:
    def __init__(self) -> None:
        self.grammar: SparkGrammar | None = None
        jar = compiled.spark_jar()
        if jar is None:
            return
        try:
            with zipfile.ZipFile(jar) as classes:
                parser = compiled.ClassFile(classes.read(f"{_PACKAGE}SqlBaseParser.class"))
                lexer = compiled.ClassFile(classes.read(f"{_PACKAGE}SqlBaseLexer.class"))
            self.grammar = SparkGrammar(parser, lexer)
            if not all(self.grammar.find_refusal(text) is None for text in _VALID):
                raise compiled.UnknownFormat("it refuses valid queries")
        except Exception as error:  # Classes of other Sparks are data, whatever is wrong with them.
            self.fail(error)

    def fail(self, error: Exception) -> None:
        self.grammar = None
        compiled.remember_unusable(f"{type(error).__name__}: {error}".removesuffix(": "))


_VALID = (
    "SELECT a, count(*) AS n FROM t WHERE b > 1 GROUP BY a ORDER BY a LIMIT 5",
    "WITH x AS (SELECT CAST(a AS ARRAY<INT>) AS a FROM t JOIN u USING (k)) SELECT * FROM x",
)


@lru_cache(maxsize=1)
def _installed_grammar() -> _InstalledGrammar:
    return _InstalledGrammar()


def _network_text(one: compiled.ClassFile) -> str:
    return "".join(text for name, text in one.texts.items() if name.startswith("_serializedATN"))


def _forbid_aliases(network: compiled.Network, rules: Mapping[str, int]) -> None:
    """Change Spark's rule for GROUP BY to refuse aliases, except after `|>`."""
    clause, named = rules["aggregationClause"], rules["namedExpression"]
    plain = rules["expression"]
    own = [state for state, rule in enumerate(network.rule_by_state) if rule == clause]
    copies = {state: len(network.edges) + number for number, state in enumerate(own)}
    for state in own:
        copied = []
        for edge in network.edges[state]:
            edge = edge._replace(target=copies[edge.target])
            if edge.kind == compiled.RULE and edge.second == named:
                edge = edge._replace(first=network.starts[plain], second=plain)
            copied.append(edge)
        network.edges.append(copied)
        network.rule_by_state.append(clause)
        if state in network.stops:
            network.stops.add(copies[state])
    start = copies[network.starts[clause]]
    for state, edges in enumerate(network.edges):
        if network.rule_by_state[state] != rules["operatorPipeRightSide"]:
            network.edges[state] = [
                edge._replace(first=start)
                if edge.kind == compiled.RULE and edge.second == clause
                else edge
                for edge in edges
            ]


def _forbid_end_after(network: compiled.Network, rule: int, last: int, *, called: bool) -> None:
    """Change a rule to refuse a text that ends with a certain token or called rule.

    Args:
        last: Number of the token or, if `called` is true, of the called rule.
    """

    def ends(state: int) -> bool:
        return state in network.stops or any(map(skips, network.edges[state]))

    def skips(edge: compiled.Edge) -> bool:
        return edge.kind != compiled.RULE and not edge.symbols and ends(edge.target)

    for state, of in enumerate(network.rule_by_state):
        for edge in list(network.edges[state]) if of == rule else ():
            symbols = ((edge.second, edge.second),) if edge.kind == compiled.RULE else edge.symbols
            if (edge.kind == compiled.RULE) != called or not any(
                x <= last <= y for x, y in symbols
            ):
                continue
            others = [one for one in network.edges[edge.target] if not skips(one)]
            if others:
                network.edges[edge.target] = others
            elif ends(edge.target):
                network.edges[state].remove(edge)


def _read_spellings(network: compiled.Network) -> dict[int, str]:
    found: dict[int, str] = {}
    for token, start in zip(network.token_types, network.starts, strict=True):
        at, word, passed = start, "", {start}
        while at not in network.stops:
            if len(network.edges[at]) != 1:
                break
            edge = network.edges[at][0]
            if edge.symbols and edge.symbols[0][0] == edge.symbols[-1][1]:
                word += chr(edge.symbols[0][0])
            elif edge.symbols or edge.kind == compiled.RULE:
                break
            at = edge.target
            if at in passed:
                raise compiled.UnknownFormat("a token is a loop of states")
            passed.add(at)
        else:
            found.setdefault(token, word)
    return found
