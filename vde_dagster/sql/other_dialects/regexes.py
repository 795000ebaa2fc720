"""Translation of regular expressions to Java's syntax, which Spark uses.

Sources: RE2's syntax (DuckDB, BigQuery), PostgreSQL's manual 9.7.3, and `java.util.regex.Pattern`.
The engines differ in what the dot, `$`, spaces and word boundaries match. A literal pattern is
translated to an equivalent pattern; a computed pattern is refused.
"""

from __future__ import annotations

import re

from sqlglot import exp

from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.building import Replacement, call, when
from vde_dagster.sql.other_dialects.texts import literal_int

_RE2 = frozenset({"duckdb", "bigquery"})
_POSIX = frozenset({"postgres"})
_FIRST_ONLY = frozenset({"duckdb", "postgres"})
"""Dialects in which REGEXP_REPLACE replaces the first match unless flags contain `g`."""
_BACKSLASHES = frozenset({"duckdb", "postgres", "bigquery", "snowflake"})
"""Dialects whose replacements refer to groups as `\1`, unlike Java's `$1`."""
_FULL = frozenset({"duckdb"})
"""Dialects whose operator `~` matches the whole text, as `regexp_full_match` does."""
_NULL_WITHOUT_A_MATCH = frozenset({"trino", "athena"})
_ITEM = re.compile(
    r"\\[0-9]+|\\[pP](?:\{\^?\w+\}|\w)|\\x\{[0-9a-fA-F]+\}|\\.|\[\^?\]?|\(\?<?[=!]|\(\?[:<P]?"
    r"|[+*?}][?+]|[.$|]|[^\\]",
    re.DOTALL,
)
_ENDS = (
    "(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))",
    "(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))",
)
_CLASSES = {
    "alpha": "\\p{Alpha}",
    "digit": "0-9",
    "alnum": "\\p{Alnum}",
    "upper": "\\p{Upper}",
    "lower": "\\p{Lower}",
    "space": "\\t\\n\\x0B\\f\\r ",
    "punct": "\\p{Punct}",
    "xdigit": "\\p{XDigit}",
    "word": "\\w",
    "blank": "\\t ",
    "cntrl": "\\p{Cntrl}",
}
_POSIX_CLASS = re.compile(r"\[:(\w+):\]")


def java_pattern(written: str, dialect: str, *, matched: bool = False) -> str:
    r"""Translate a regular expression to Java's syntax.

    Args:
        matched: Whether the matched text matters, as in a replacement.

    Raises:
        Unwritable: A part of the pattern has no known equivalent in Java.

    >>> java_pattern("^a.c$", "duckdb"), java_pattern("^[a-z]+", "duckdb")
    ('^a[^\\n]c\\z', '^[a-z]+')
    """
    if dialect not in _RE2 | _POSIX:
        return written
    posix = dialect in _POSIX
    made: list[str] = []
    if written.startswith("(?i)"):
        return "(?iu)" + java_pattern(written[4:], dialect, matched=matched)
    inside = False
    at = 0
    while at < len(written):
        named = _POSIX_CLASS.match(written, at) if inside else None
        if named is not None:
            if named[1] not in _CLASSES or (posix and named[1] not in ("digit", "xdigit")):
                raise Unwritable(f"'{named[0]}' in a regular expression of {dialect}")
            made.append(_CLASSES[named[1]])
            at = named.end()
            continue
        found = _ITEM.match(written, at)
        if found is None:
            raise Unwritable(f"a regular expression that ends with a backslash, '{written}'")
        item = found[0]
        at = found.end()
        made.append(
            _translate_in_class(item, posix) if inside else _translate_outside(item, posix, matched)
        )
        if inside and item == "]":
            inside = False
        elif not inside and item[0] == "[":
            inside = True
    return "".join(made)


def _translate_in_class(item: str, posix: bool) -> str:
    if item[0] == "[" or item == "&":
        return "\\" + item  # Java reads `[` and `&&` there as the beginning of another class.
    if item == r"\s":
        return r"\t\n\x0B\f\r " if posix else r"\t\n\f\r "
    if item[0] == "\\":
        _check_escape(item, posix)
        if item in (r"\S", r"\b", r"\B"):
            raise Unwritable(f"'{item}' in brackets of a regular expression")
    return item


def _translate_outside(item: str, posix: bool, matched: bool) -> str:
    if item == ".":
        return r"[\s\S]" if posix else r"[^\n]"
    if item == "$":
        return r"\z"
    if item == "|" and posix and matched:
        raise Unwritable(
            "a regular expression with '|', because PostgreSQL matches the longest alternative and "
            "Java the first"
        )
    if item[0] == "(" and len(item) > 2 and item != "(?:":
        raise Unwritable(f"'{item}' in a regular expression")
    if item == "(?":
        raise Unwritable("flags in a regular expression")
    if len(item) == 2 and item[0] in "+*?}":
        if item[1] == "+" or posix:
            raise Unwritable(f"the quantifier '{item}' in a regular expression")
        return item
    if item[0] != "\\":
        return item
    _check_escape(item, posix)
    if item in (r"\s", r"\S"):
        blanks = r"\t\n\x0B\f\r " if posix else r"\t\n\f\r "
        return f"[{'^' if item == chr(92) + 'S' else ''}{blanks}]"
    if item in (r"\b", r"\B"):
        return _ENDS[item == r"\B"]
    return item


def _check_escape(item: str, posix: bool) -> None:
    letter = item[1]
    # PostgreSQL's classes of letters depend on the database's locale.
    known = "dD" if posix else "dDwWbBpPx"
    if (letter.isalpha() and letter not in known + "sSntrf") or letter.isdigit():
        raise Unwritable(f"'{item}' in a regular expression")


def java_replacement(written: str, dialect: str, *, shift: int = 0) -> str:
    """Translate a replacement to Java's syntax, with `shift` added to its group numbers.

    >>> java_replacement(r"\\2-$\\1", "bigquery")
    '$2-\\\\$$1'
    """
    if dialect not in _BACKSLASHES:
        return written
    made = []
    for found in re.finditer(r"\\(.)|(.)|\\$", written, re.DOTALL):
        escaped, plain = found[1], found[2]
        if plain is not None:
            made.append("\\$" if plain == "$" else plain)
        elif escaped is not None and (
            escaped.isdigit() or (escaped == "&" and dialect == "postgres")
        ):
            number = 0 if escaped == "&" else int(escaped)
            if shift and not number:
                raise Unwritable("a replacement by the whole match")
            made.append(f"${number + shift}" if number or not shift else "")
        elif escaped == "\\":
            made.append("\\\\")
        else:
            raise Unwritable(f"the replacement '{written}'")
    text = "".join(made)
    if re.search(r"\$\d\d", text):  # Java takes as many digits as there are groups.
        text = re.sub(r"(\$\d)(?=\d)", r"\1\\", text)
    return text


def rewrite_replace(node: exp.RegexpReplace, dialect: str) -> Replacement:
    """Rewrite REGEXP_REPLACE, which replaces only the first match in some dialects."""
    if dialect not in _RE2 | _POSIX | _BACKSLASHES:
        return None
    pattern, replacement = node.expression, node.args.get("replacement")
    flags = node.args.get("modifiers")
    placed = any(node.args.get(name) is not None for name in ("position", "occurrence"))
    if placed and dialect in _FIRST_ONLY:
        raise Unwritable("REGEXP_REPLACE with a position")
    given = _read_flags(flags, dialect)
    first = dialect in _FIRST_ONLY and "g" not in given
    before = _flag_prefix(given)
    form = _java_literal(pattern, dialect, matched=True)
    if replacement is not None and not _is_text(replacement):
        raise Unwritable("a replacement that is computed")
    written = replacement.name if replacement is not None else ""
    if dialect in _RE2 and not first and written and _may_be_empty(form):
        raise Unwritable("all matches of a regular expression that may match an empty text")
    made = node.copy()
    made.set("modifiers", None)
    made.set("single_replace", None)
    if first:
        form = f"\\A([\\s\\S]*?)(?:{form})"
        by = "$1" + java_replacement(written, dialect, shift=1)
        by = re.sub(r"\$1(?=\d)", r"$1\\", by)
    else:
        by = java_replacement(written, dialect)
    made.set("expression", exp.Literal.string(before + form))
    made.set("replacement", exp.Literal.string(by))
    return made


def _may_be_empty(pattern: str) -> bool:
    """Return whether a pattern may match an empty text directly after another match."""
    if not re.sub(r"[$^]|\\[Az]", "", pattern):
        return False
    # A replacement in Java replaces an empty match after another match, and a replacement in RE2
    # does not.
    is_anchored = pattern.startswith("^") and "|" not in pattern
    try:
        return not is_anchored and re.compile(pattern.replace("\\z", "\\Z")).match("") is not None
    except re.error:
        return any(letter in pattern for letter in "*?{|")


def rewrite_match(node: exp.RegexpLike | exp.RegexpILike, dialect: str) -> Replacement:
    """Rewrite a test of a text with a regular expression.

    In some dialects, the expression must match the whole text.
    """
    whole = bool(node.args.get("full_match"))
    operator = "start" not in node.meta
    whole = whole or (dialect in _FULL and operator and isinstance(node, exp.RegexpLike))
    folded = isinstance(node, exp.RegexpILike)
    flags = _read_flags(node.args.get("flag"), dialect)
    if dialect not in _RE2 | _POSIX and not (whole or folded):
        return None
    before = _flag_prefix(flags + ("i" if folded else ""))
    if not _is_text(node.expression):
        if dialect in _RE2 | _POSIX or before:
            raise Unwritable("a regular expression that is computed")
        if not whole:
            return None
        around = [exp.Literal.string("\\A(?:"), node.expression.copy(), exp.Literal.string(")\\z")]
        pattern: exp.Expr = call("CONCAT", *around)
    else:
        form = java_pattern(node.expression.name, dialect)
        form = f"\\A(?:{form})\\z" if whole else form
        pattern = exp.Literal.string(before + form)
    return exp.RegexpLike(this=node.this.copy(), expression=pattern)


def rewrite_similar(node: exp.SimilarTo, dialect: str) -> Replacement:
    """Rewrite DuckDB's SIMILAR TO as a match of the whole text. Refuse other dialects."""
    if dialect != "duckdb":
        raise Unwritable("SIMILAR TO")
    made = exp.RegexpLike(this=node.this.copy(), expression=node.expression.copy(), full_match=True)
    return rewrite_match(made, dialect)


def rewrite_full_match(node: exp.RegexpFullMatch, dialect: str) -> Replacement:
    if node.args.get("options") is not None:
        raise Unwritable("regexp_full_match with flags")
    made = exp.RegexpLike(this=node.this.copy(), expression=node.expression.copy(), full_match=True)
    return rewrite_match(made, dialect)


def rewrite_extract(node: exp.RegexpExtract | exp.RegexpExtractAll, dialect: str) -> Replacement:
    """Rewrite REGEXP_EXTRACT, whose result is NULL in some dialects if nothing matches."""
    made = node.copy()
    if dialect in ("bigquery", "redshift") and node.args.get("group") is None:
        made.set("group", exp.Literal.number(0))  # Spark's default is 1.
    if dialect in _RE2 | _POSIX:
        form = _java_literal(node.expression, dialect, matched=True)
        made.set("expression", exp.Literal.string(form))
    null = node.args.get("null_if_no_match") or dialect in _NULL_WITHOUT_A_MATCH
    if isinstance(node, exp.RegexpExtract) and null:
        if node.args.get("parameters") is not None:
            raise Unwritable("REGEXP_EXTRACT with flags")
        for name in ("position", "occurrence"):
            if node.args.get(name) is not None and literal_int(node.args[name]) != 1:
                raise Unwritable("REGEXP_EXTRACT with a position")
            made.set(name, None)
        made.set("null_if_no_match", None)
        found = exp.RegexpLike(this=made.this.copy(), expression=made.expression.copy())
        return when(found, made)
    return made if made != node else None


def _java_literal(node: exp.Expr, dialect: str, *, matched: bool) -> str:
    if not _is_text(node):
        raise Unwritable("a regular expression that is computed")
    return java_pattern(node.name, dialect, matched=matched)


def _read_flags(node: exp.Expr | None, dialect: str) -> str:
    if node is None:
        return ""
    if not _is_text(node) or set(node.name) - set("gic"):
        raise Unwritable(f"flags {node.sql(dialect)} of a regular expression")
    return node.name.replace("c", "")


def _flag_prefix(flags: str) -> str:
    return "(?iu)" if "i" in flags else ""


def _is_text(node: exp.Expr) -> bool:
    return node.is_string or isinstance(node, exp.RawString)
