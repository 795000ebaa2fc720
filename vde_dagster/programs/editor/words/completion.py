"""Completion: valid words at the cursor, derived from the words around it.

An unfinished text cannot be parsed, so only its words are used: brackets delimit the cursor's
query, and FROM and JOIN name its tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.programs.editor.reading import Reading, column_names
from vde_dagster.programs.editor.words.in_yaml import complete_yaml, is_yaml
from vde_dagster.project.files import find_files
from vde_dagster.project.macros.builtins import BUILTINS, PLUGINS
from vde_dagster.project.properties.model_properties import model_schema
from vde_dagster.project.reading.builtin_audits import BUILTIN_AUDITS
from vde_dagster.semantics import spark_functions
from vde_dagster.sql.scanner import SourceText, Token, scan

_BEFORE = re.compile(r"([A-Za-z_@][\w@]*)?$")
_FUNCTION = re.compile(r"^@?macro\b.*?\ndef (\w+)\(|^def (\w+)\(", re.MULTILINE)
_ENDS_FROM = frozenset(
    {"WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT"}
    | {"UNION", "EXCEPT", "INTERSECT", "MINUS", "WINDOW", "SELECT", "LATERAL", "OFFSET"}
)
_JOINS = frozenset({"JOIN", "ON", "USING", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "OUTER"}) | {
    "SEMI", "ANTI", "NATURAL", "AS",
}  # fmt: skip
_CRONS = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")


class Completion(NamedTuple):
    """A word that can be inserted at the cursor.

    Args:
        kind: `model`, `namespace`, `column`, `table`, `function`, `macro`, `variable`, `property`
            or `value`.
        detail: A short remark.
    """

    label: str
    kind: str
    detail: str = ""


class Cursor(NamedTuple):
    """The tokens before and after the cursor, and the unfinished word.

    Args:
        qualifier: The name before the dot, such as `o` of `o.amou`.
    """

    before: list[Token]
    behind: list[Token]
    word: str
    qualifier: str


def completions(reading: Reading, path: str, offset: int) -> list[Completion]:
    """Return completions at an offset of a SQL or YAML file, the likeliest kinds first."""
    if is_yaml(path):
        word, said = complete_yaml(reading, path, offset)
        return [Completion(*one) for one in said if one[0].lower().startswith(word.lower())]
    if not path.endswith(".sql"):
        return []
    at = _read_cursor(reading.text(path), offset)
    header = header_before(at.before)
    if header is not None:
        found = list(_header_completions(reading, header, at))
    elif at.word.startswith("@"):
        found = list(_macro_completions(reading))
    elif _names_table(at.before):
        found = list(_table_completions(reading, at))
    else:
        found = list(_query_completions(reading, at))
    word = at.word.lower()
    return [one for one in dict.fromkeys(found) if one.label.lower().startswith(word)]


def _read_cursor(text: str, offset: int) -> Cursor:
    word = _BEFORE.search(text[:offset])
    start = word.start() if word else offset
    before, behind = read_tokens(text[:start]), read_tokens(text[offset:])
    qualifier = ""
    if before and before[-1].text == "." and before[-1].end == start:
        names = [token.text for token in before[-4:-1] if token.text != "."]
        dotted = len(before) > 3 and before[-3].text == "."
        qualifier = ".".join(names[-2:]) if dotted else names[-1] if names else ""
        before = before[:-4] if dotted else before[:-2]
    return Cursor(before, behind, word.group() if word else "", qualifier.replace("`", "").lower())


def read_tokens(text: str) -> list[Token]:
    """Return the tokens of a text, up to a quote that is not closed."""
    while True:
        try:
            return [
                t for t in scan(SourceText(_NOWHERE, text)) if t.kind not in ("comment", "hint")
            ]
        except VdeError as error:
            line = error.location.line if error.location else None
            cut = text.rfind("\n") if line is None else -1
            if line is not None:
                lines = text.split("\n")
                cut = sum(len(one) + 1 for one in lines[: line - 1])
                cut += (error.location.column or 1) - 1 if error.location else 0
            if cut <= 0 or cut >= len(text):
                return []
            text = text[:cut]


_NOWHERE = Path("query.sql")


# -- the header --------------------------------------------------------------------------------


def header_before(before: Sequence[Token]) -> list[Token] | None:
    """Return the tokens of the `MODEL (` header around the cursor, or None outside of a header."""
    start = next((i for i in range(len(before) - 1, -1, -1) if before[i].text == ";"), -1) + 1
    statement = list(before[start:])
    if len(statement) < 2 or not statement[0].is_word("MODEL") or statement[1].text != "(":
        return None
    depth = sum({"(": 1, ")": -1}.get(token.text, 0) for token in statement)
    return statement[1:] if depth > 0 else None


def _header_completions(reading: Reading, header: list[Token], at: Cursor) -> Iterator[Completion]:
    schema = model_schema()
    depth, name = 0, ""
    for before, token in zip([None, *header], header, strict=False):
        if depth == 1 and before is not None and before.text in "(,":
            name = token.text.lower()
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 1 and token.text == ",":
            name = ""
    last = header[-1].text
    if depth == 1 and last in "(,":
        for one, described in schema["properties"].items():
            yield Completion(one, "property", described.get("description", ""))
    elif name == "kind":
        yield from _kind_completions(schema, header, depth, last)
    elif name == "cron":
        yield from (Completion(cron, "value") for cron in _CRONS)
    elif name == "audits" and depth == 2:
        yield from (Completion(audit, "function", "audit") for audit in BUILTIN_AUDITS)
    elif name in ("owner", "tags"):
        known: set[str] = set()
        for model in reading.project.models.values():
            known.update(model.tags if name == "tags" else filter(None, [model.owner]))
        yield from (Completion(one, "value") for one in sorted(known))
    else:
        described = schema["properties"].get(name, {})
        yield from (Completion(str(one), "value") for one in described.get("examples", ()))
        if described.get("type") == "boolean":
            yield from (Completion(one, "value") for one in ("true", "false"))
    if name not in ("", "name", "kind", "cron", "owner", "tags") or depth > 2 or name == "kind":
        yield from _output_columns(reading, at)


def _kind_completions(
    schema: dict[str, Any], header: list[Token], depth: int, last: str
) -> Iterator[Completion]:
    choices = schema["properties"]["kind"]["anyOf"]
    if depth == 1:
        for choice in choices:
            if "properties" in choice:
                kind = choice["properties"]["name"]["const"]
                yield Completion(kind, "value", choice.get("description", ""))
            else:
                yield from (Completion(one, "value") for one in choice.get("enum", ()))
        return
    chosen = [token.text.upper() for token in header]
    for choice in choices:
        properties = choice.get("properties", {})
        if properties.get("name", {}).get("const") in chosen and depth == 2 and last in "(,":
            for one, described in properties.items():
                if one != "name":
                    yield Completion(one, "property", described.get("description", ""))


def _output_columns(reading: Reading, at: Cursor) -> Iterator[Completion]:
    texts = [token.text for token in at.before]
    start = len(texts) - texts[::-1].index("MODEL") if "MODEL" in texts else 0
    for number in range(start, len(texts) - 3):
        if texts[number].lower() == "name" and texts[number + 2] == ".":
            name = ModelName(texts[number + 1].lower(), texts[number + 3].lower())
            snapshot = reading.snapshots.get(name)
            for column in snapshot.columns if snapshot is not None else ():
                yield Completion(column.name, "column", column.type or "")
            return


# -- macros ------------------------------------------------------------------------------------


def _macro_completions(reading: Reading) -> Iterator[Completion]:
    settings = reading.project.settings
    for path in find_files(settings).macros:
        if path.endswith(".py"):
            for found in _FUNCTION.finditer(reading.text(path)):
                yield Completion(f"@{found[1] or found[2]}", "macro", path)
    yield from (
        Completion(f"@{name}", "variable", str(v)) for name, v in settings.variables.items()
    )
    for edge in ("start", "end", "execution"):
        for form in ("date", "ds", "ts", "dt", "epoch", "millis", "tstz", "dtntz"):
            yield Completion(f"@{edge}_{form}", "variable", "of the interval")
    yield from (Completion(f"@{name.upper()}", "macro", "built in") for name in BUILTINS)
    yield from (Completion(f"@{name.upper()}", "macro", "plug-in") for name in PLUGINS.names())


# -- queries -----------------------------------------------------------------------------------


def _names_table(before: Sequence[Token]) -> bool:
    # Names follow FROM, JOIN, and a comma between tables.
    if not before:
        return False
    if before[-1].is_word("FROM", "JOIN"):
        return True
    if before[-1].text != ",":
        return False
    depth = 0
    for token in reversed(before[:-1]):
        depth += {")": 1, "(": -1}.get(token.text, 0)
        if depth < 0:
            return False
        if depth == 0 and token.kind == "word":
            if token.text.upper() == "FROM":
                return True
            if token.text.upper() in _ENDS_FROM | {"ON", "USING"}:
                return False
    return False


def _table_completions(reading: Reading, at: Cursor) -> Iterator[Completion]:
    if at.qualifier:
        for name, model in reading.project.models.items():
            if name.namespace == at.qualifier:
                yield Completion(name.name, "model", model.description or model.kind.name)
        return
    yield from (Completion(name, "table", "in this query") for name in _ctes(at.before))
    for name, model in reading.project.models.items():
        yield Completion(str(name), "model", model.description or model.kind.name)
    for namespace in sorted({name.namespace for name in reading.project.models}):
        yield Completion(namespace, "namespace")


def _query_completions(reading: Reading, at: Cursor) -> Iterator[Completion]:
    tables = _tables_in_reach(at)
    ctes = _ctes([*at.before, *at.behind])
    for alias, name in tables:
        if at.qualifier and at.qualifier not in (alias, name):
            continue
        for column, detail in _table_columns(reading, name, ctes, 8):
            yield Completion(column, "column", detail)
    if at.qualifier:
        return
    yield from (Completion(alias, "table", name) for alias, name in tables if alias)
    for function in sorted(spark_functions.function_names()):
        said = spark_functions.arguments_text(function)
        what = spark_functions.function_kind(function) or ""
        yield Completion(function, "function", f"{what}, arguments: {said}")


def _tables_in_reach(at: Cursor) -> list[tuple[str, str]]:
    tokens = [*at.before, *at.behind]
    here = len(at.before)
    found: list[tuple[str, str]] = []
    begin, end = here, here
    while True:
        begin, end = _enclosing_range(tokens, begin, end)
        found += _tables_of_select(tokens[begin:end], here - begin)
        if begin == 0 or tokens[begin - 1].text == ";":
            return list(dict.fromkeys(found))
        begin, end = begin - 1, end + 1


def _enclosing_range(tokens: Sequence[Token], begin: int, end: int) -> tuple[int, int]:
    depth = 0
    while begin > 0:
        text = tokens[begin - 1].text
        depth += {")": 1, "(": -1}.get(text, 0)
        if depth < 0 or (depth == 0 and text == ";"):
            break
        begin -= 1
    depth = 0
    while end < len(tokens):
        text = tokens[end].text
        depth += {"(": 1, ")": -1}.get(text, 0)
        if depth < 0 or (depth == 0 and text == ";"):
            break
        end += 1
    return begin, end


def _tables_of_select(tokens: Sequence[Token], cursor: int) -> Iterator[tuple[str, str]]:
    depth, part = 0, 0
    parts: list[list[Token]] = [[]]
    for index, token in enumerate(tokens):
        if depth == 0 and token.is_word("UNION", "EXCEPT", "INTERSECT", "MINUS"):
            parts.append([])
            part += index < cursor
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 or (depth == 1 and token.text == "("):
            parts[-1].append(token)
    inside, expected = False, False
    name: list[str] = []
    chosen = parts[part]
    for index, token in enumerate(chosen):
        word = token.text.upper()
        if token.is_word("FROM", "JOIN"):
            inside = expected = True
            continue
        if not inside:
            continue
        if word in _ENDS_FROM:
            inside = False
        elif word == ",":
            expected = True
        elif expected and token.kind in ("word", "quoted"):
            name, expected = [token.text], False
            behind = index + 1
            while behind + 1 < len(chosen) and chosen[behind].text == ".":
                name.append(chosen[behind + 1].text)
                behind += 2
            if behind < len(chosen) and chosen[behind].is_word("AS"):
                behind += 1
            alias = ""
            if behind < len(chosen) and chosen[behind].kind in ("word", "quoted"):
                said = chosen[behind].text
                alias = "" if said.upper() in _ENDS_FROM | _JOINS else said
            plain = [part.strip("`").lower() for part in name]
            yield (alias.strip("`").lower() or plain[-1], ".".join(plain))


def _ctes(tokens: Sequence[Token]) -> dict[str, list[Token]]:
    found: dict[str, list[Token]] = {}
    for index, token in enumerate(tokens[:-2]):
        opens = tokens[index + 1].is_word("AS") and tokens[index + 2].text == "("
        before = tokens[index - 1] if index else token
        if opens and (before.is_word("WITH", "RECURSIVE") or before.text in ",)"):
            _, end = _enclosing_range(tokens, index + 3, index + 3)
            found[token.text.strip("`").lower()] = list(tokens[index + 3 : end])
    return found


def _table_columns(
    reading: Reading, name: str, ctes: dict[str, list[Token]], budget: int
) -> Iterator[tuple[str, str]]:
    if name in ctes and budget:
        yield from _select_columns(reading, ctes[name], ctes, name, budget - 1)
        return
    namespace, _, table = name.rpartition(".")
    model = ModelName(namespace.rpartition(".")[2], table)
    snapshot = reading.snapshots.get(model)
    for column in snapshot.columns if snapshot is not None else ():
        yield column.name, f"{model}, {column.type}" if column.type else str(model)
    if snapshot is None:
        yield from ((column, str(model)) for column in column_names(reading.snapshots, model) or ())


def _select_columns(
    reading: Reading, tokens: list[Token], ctes: dict[str, list[Token]], name: str, budget: int
) -> Iterator[tuple[str, str]]:
    depth, item = 0, list[Token]()
    started = False
    for token in tokens:
        if depth == 0 and token.is_word("SELECT"):
            started = True
            continue
        if not started:
            continue
        ends = depth == 0 and (token.text == "," or token.is_word("FROM"))
        if ends and item:
            if item[-1].text == "*":
                for alias, table in _tables_of_select(tokens, 0):
                    if len(item) == 1 or item[0].text.lower() == alias:
                        yield from _table_columns(reading, table, ctes, budget)
            elif item[-1].kind in ("word", "quoted"):
                yield item[-1].text.strip("`"), name
        if ends:
            item = []
            if token.text != ",":
                return
            continue
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        item.append(token)
