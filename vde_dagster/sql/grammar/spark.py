"""The grammar of the installed Spark, read from Spark's class files.

ANTLR compiles `SqlBaseParser.g4` and `SqlBaseLexer.g4` to networks, which the class files contain
as text. Therefore the grammar need not be copied, and no JVM is needed.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from vde_dagster.sql.grammar import compiled
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
"""Tokens and rules after which Spark refuses a rule's end, although its grammar accepts it."""
_QUERY = "query"
_CACHE_SIZE = 2_000
"""Maximum number of cached results. Many models have the same list of tokens."""


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
            if len(self._known) >= _CACHE_SIZE:
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


_Config = tuple[int, tuple[int, ...], int]
"""A state, the stack of states to return to, and the rule of the token."""
_COMMENT, _HINT, _END_OF_COMMENT = "/*", "/*+", "*/"
_WORD = re.compile("[ \\n]*([A-Z_][A-Z_0-9]*)?")
"""Blanks, which are no token, and the word after them."""
_PIECE = re.compile(
    r"[ \n]*([A-Z_][A-Z_0-9]*|[0-9][0-9.A-Z_]*|'[^'\\]{0,80}'|`[^`]{0,80}`"
    r"|[<>!=]=|<>|::|\|\||[^ \n])(?=(.?))",
    re.DOTALL,
)
"""Pattern of a likely token and the next character."""
Guard = Callable[[str, int], bool]
"""Returns whether a token may end, from the next character and the number of open `<`."""
_GUARDS: Mapping[str, Guard] = {
    "isValidDecimal": lambda behind, _: (
        not (behind.isascii() and (behind.isalnum() or behind == "_"))
    ),
    "isShiftRightOperator": lambda _, opened: opened == 0,
}


Lexeme: TypeAlias = tuple[int, int, int]
"""A token by its number, and its offsets."""


class _State:
    __slots__ = ("accepts", "configs", "moves")

    def __init__(
        self, configs: tuple[_Config, ...], accepts: tuple[tuple[int, int | None], ...]
    ) -> None:
        self.configs = configs
        self.accepts = accepts
        self.moves: dict[str, _State | None] = {}


class Lexer:
    """A lexer for Spark SQL.

    Args:
        predicates: Each predicate's name and whether it is negated, by number.

    Raises:
        UnknownFormat: A predicate is not at the end of its token.
    """

    def __init__(
        self,
        network: compiled.Network,
        predicates: Mapping[int, tuple[str, bool]],
        names: Mapping[str, int],
    ) -> None:
        self._network = network
        self._predicates = predicates
        self._hidden = {names["SIMPLE_COMMENT"], names["WS"]}
        self._comment = names["BRACKETED_COMMENT"]
        self._opens = {names[name] for name in ("ARRAY", "MAP", "STRUCT")}
        self._closes = names["GT"]
        self._states: dict[tuple[_Config, ...], _State] = {}
        self._start = self._start_state()
        self._words: dict[str, int] = {}
        self._signs: dict[str, int] = {}
        self._pieces: dict[tuple[str, str], int | None] = {}

    def fast_tokens(self, text: str) -> tuple[int, ...] | None:
        """Return the numbers of a text's tokens, much faster than `tokens`.

        Return None for texts that need `tokens`: those with comments, other characters than ASCII,
        types with parameters, and rare spellings.
        """
        if not text.isascii() or _COMMENT in text:
            return None
        pieces, known = _PIECE.findall(text.upper()), self._pieces
        try:
            kinds = [known[one] for one in pieces]
        except KeyError:
            if len(known) >= _CACHE_SIZE:
                known.clear()
            known.update({one: self._kind(*one) for one in pieces if one not in known})
            kinds = [known[one] for one in pieces]
        return None if None in kinds else tuple(kinds)  # type: ignore[arg-type]

    def _kind(self, piece: str, behind: str) -> int | None:
        kind, *ends = self._longest_token(piece + behind, 0, 0)
        is_special = kind in self._hidden or kind in self._opens
        return None if is_special or ends != [len(piece)] * 2 else kind

    def tokens(self, text: str) -> list[Lexeme]:
        """Return (number, start, end) of each token of a text, including an unclosed comment."""
        at, size, opened = 0, len(text), 0
        if text.isascii():
            upper = text.upper()
        else:
            upper = "".join([c if len(c.upper()) > 1 else c.upper() for c in text])
        words, signs, match = self._words.get, self._signs.get, _WORD.match
        hidden, opens, closes = self._hidden, self._opens, self._closes
        found: list[Lexeme] = []
        while True:
            blanks = match(upper, at)
            assert blanks is not None
            at, end = blanks.span(1)
            if end > 0:
                kind = words(upper[at : end + 1], -1)
                if kind < 0:
                    kind, end = self._read_word(upper, at, end)
            else:
                at = blanks.end()
                if at == size:
                    return found
                sign = upper[at : at + 2]
                if sign == _COMMENT and not upper.startswith(_HINT, at):
                    end_of_comment = _comment_end(upper, at)
                    if end_of_comment is None:
                        found.append((self._comment, at, size))
                        return found
                    at = end_of_comment
                    continue
                kind, end = signs(sign, 0) or self._read_sign(sign), at + 1
                if kind < 0:
                    kind, end, _ = self._longest_token(upper, at, opened)
            if kind not in hidden:
                found.append((kind, at, end))
            if kind in opens:
                opened += 1
            elif kind == closes:
                opened = max(0, opened - 1)
            at = end

    def _read_sign(self, text: str) -> int:
        """Return the number of a one-character token, or -1 if the token may be longer."""
        state = self._next_state(self._start, text[0])
        kind, guard = state.accepts[0] if state is not None and state.accepts else (-1, 0)
        if len(text) < 2 or state is None or guard is not None or self._next_state(state, text[1]):
            kind = -1
        if len(self._signs) >= _CACHE_SIZE:
            self._signs.clear()
        self._signs[text] = kind
        return kind

    def _read_word(self, text: str, at: int, end: int) -> tuple[int, int]:
        kind, ends, stopped = self._longest_token(text, at, 0)  # No type is closed by a word.
        if ends == stopped == end:
            if len(self._words) >= _CACHE_SIZE:
                self._words.clear()
            self._words[text[at : end + 1]] = kind
        return kind, ends

    def _longest_token(self, text: str, at: int, opened: int) -> tuple[int, int, int]:
        """Find the longest token at an offset.

        Return the token's number and its end, and the end of the characters that were examined.
        """
        state: _State | None = self._start
        kind, end, size = 0, at + 1, len(text)
        while state is not None:
            for token, predicate in state.accepts:
                if predicate is None or self._holds(predicate, text[at : at + 1], opened):
                    kind, end = token, at
                    break
            if at == size:
                break
            state = self._next_state(state, text[at])
            if state is None:
                break
            at += 1
        return kind, end, at

    def _next_state(self, state: _State, symbol: str) -> _State | None:
        moves = state.moves
        if symbol not in moves:
            moves[symbol] = self._move(state, symbol)
        return moves[symbol]

    def _holds(self, predicate: int, behind: str, opened: int) -> bool:
        name, negated = self._predicates[predicate]
        return _GUARDS[name](behind, opened) is not negated

    def _start_state(self) -> _State:
        rules = {
            rule: start
            for rule, start in enumerate(self._network.starts)
            if self._network.token_types[rule] not in (0, self._comment)
        }
        return self._create_state([(start, (), rule) for rule, start in rules.items()])

    def _move(self, state: _State, symbol: str) -> _State | None:
        code = ord(symbol)
        reached = [
            (edge.target, stack, rule)
            for at, stack, rule in state.configs
            for edge in self._network.edges[at]
            if any(low <= code <= high for low, high in edge.symbols)
        ]
        return self._create_state(reached) if reached else None

    def _create_state(self, configs: list[_Config]) -> _State:
        network = self._network
        found: dict[_Config, None] = {}
        accepts: dict[tuple[int, int | None], None] = {}
        todo: list[tuple[_Config, int | None]] = [(one, None) for one in reversed(configs)]
        while todo:
            config, guard = todo.pop()
            at, stack, rule = config
            if at in network.stops:
                if stack:
                    todo.append(((stack[-1], stack[:-1], rule), guard))
                else:
                    accepts[network.token_types[rule], guard] = None
                continue
            if guard is not None and any(edge.symbols for edge in network.edges[at]):
                raise compiled.UnknownFormat
            if config in found:
                continue
            if any(edge.symbols for edge in network.edges[at]):
                found[config] = None
            for edge in reversed(network.edges[at]):
                if edge.kind == compiled.RULE:
                    todo.append(((edge.first, (*stack, edge.target), rule), guard))
                elif edge.kind == compiled.PREDICATE:
                    todo.append(((edge.target, stack, rule), edge.second))
                elif not edge.symbols:
                    todo.append(((edge.target, stack, rule), guard))
        key = tuple(found)
        state = self._states.get(key)
        if state is None or state.accepts != tuple(accepts):
            state = self._states[key] = _State(key, tuple(accepts))
        return state


def _comment_end(text: str, at: int) -> int | None:
    depth = 0
    while True:
        opening, closing = text.find(_COMMENT, at), text.find(_END_OF_COMMENT, at)
        if closing < 0:
            return None
        if 0 <= opening < closing and not text.startswith(_HINT, opening):
            depth, at = depth + 1, opening + 2
            continue
        depth, at = depth - 1, closing + 2
        if depth == 0:
            return at
