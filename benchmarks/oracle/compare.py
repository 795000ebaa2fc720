"""Comparing what SQLMesh says of a project with what we say.

Queries are equal when they are one tree in Spark SQL: without quotes, brackets, comments and the
case of names, with tables by their models' names, and with the times of macros as plain text.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp

from vde_dagster.base.cron import SHORT_NAMES
from vde_dagster.base.names import ModelName
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import write_spark_sql

SQLMESH_CATALOG = "memory"
PROPERTIES = ("cron", "owner", "tags", "description", "grains", "columns")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d+)?)?(\+00:00)?")


@dataclass
class Compared:
    """What came of one project.

    Args:
        total: Models that SQLMesh loads, external ones left out.
        loaded: How many of them we load, under whatever name.
        equal: How many are equal, by what is compared. `plain` counts queries that are equal before
            our own translation has a say: theirs as SQLGlot alone writes it for Spark.
        queries: How many have a query that SQLMesh renders before it runs.
        differences: Model, what is compared, and the difference.
        blocked: Models that do not load, by the message that keeps them from it.
        own: SQLMesh's names and queries.
    """

    total: int = 0
    loaded: int = 0
    equal: Counter[str] = field(default_factory=Counter)
    queries: int = 0
    differences: list[tuple[str, str, str]] = field(default_factory=list)
    blocked: Counter[str] = field(default_factory=Counter)
    own: frozenset[tuple[str, str]] = frozenset()

    def copies(self, other: Compared) -> bool:
        """Say whether most of the models are another project's, by name and query."""
        return 2 * len(self.own & other.own) > len(self.own) > 1


def compare(theirs: dict[str, Any], ours: dict[str, Any]) -> Compared:
    """Compare two answers about one project."""
    result = Compared()
    mine = {key(name): model for name, model in ours["models"].items()}
    own = {name: model for name, model in mine.items() if model["kind"] != "EXTERNAL"}
    shorter = _without_catalogs(set(mine))
    by_file = Counter(model["file"] for model in own.values())
    fallback = ours.get("namespace", "default")
    for name, model in theirs["models"].items():
        if model["kind"] == "EXTERNAL":
            continue
        result.total += 1
        result.queries += _is_rendered(model)
        wanted = _our_name(key(name), fallback)
        found = next((own[n] for n in wanted if n in own), None)
        if found is None:
            found = own.get(shorter.get(wanted[0][-2:], ()))
        if found is None:
            if by_file[model["file"]] > 0:
                result.loaded += 1
                result.differences.append((".".join(wanted[0]), "name", "has another name here"))
            else:
                result.blocked[_why(model["file"], ours)] += 1
            continue
        result.loaded += 1
        for what, difference in _differences(model, found, fallback):
            if difference:
                result.differences.append((".".join(wanted[0]), what, difference))
            else:
                result.equal[what] += 1
        result.equal["plain"] += _equal_in_plain_spark(model, found, fallback)
        result.equal["name"] += 1
    result.own = frozenset(
        (key(name)[-1], str(model["query"]))
        for name, model in theirs["models"].items()
        if model["kind"] != "EXTERNAL"
    )
    return result


def _is_rendered(model: dict[str, Any]) -> bool:
    """Say whether SQLMesh knows a query before it runs; columns that it misses have a stand-in."""
    return model["query"] is not None and "__schema_unavailable_at_load__" not in model["query"]


def _equal_in_plain_spark(theirs: dict[str, Any], ours: dict[str, Any], fallback: str) -> bool:
    """Compare without our translation of other dialects, whose mistakes would be on both sides."""
    if theirs["query"] is None or ours["query"] is None:
        return False
    try:
        dialect = theirs["dialect"].split(",")[0]
        plain = sqlglot.transpile(theirs["query"], read=dialect or None, write="spark")[0]
        return _spark(plain, "spark", fallback) == _spark(ours["query"], "spark", fallback)
    except Exception:
        return False


def key(name: str) -> tuple[str, ...]:
    """Return a name's parts in lower case, SQLMesh's default catalog left out."""
    name = name.replace('"', "`")
    parts = tuple(part.lower() for part in ModelName.split(name))
    return parts[1:] if len(parts) == 3 and parts[0] == SQLMESH_CATALOG else parts


def _our_name(parts: tuple[str, ...], fallback: str) -> list[tuple[str, ...]]:
    """Return what a name of SQLMesh may be called here."""
    if len(parts) == 1 or (len(parts) == 2 and parts[0] == SQLMESH_CATALOG):
        return [(fallback, parts[-1]), parts]
    if len(parts) == 3:
        catalog, schema, table = parts
        return [parts, (f"{catalog}__{schema}", table), (schema, table)]
    return [parts]


def _without_catalogs(names: set[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    return {(name[0].rpartition("__")[2], name[-1]): name for name in names}


def _why(file: str, ours: dict[str, Any]) -> str:
    """Return the message that keeps a file's models from loading."""
    if ours["problem"]:
        return "TRACEBACK " + ours["problem"].strip().splitlines()[-1]
    problems = ours["problems"]
    own = [one for one in problems if one["file"] == file]
    general = [one for one in problems if not str(one["file"]).startswith("models/")]
    for one in own or general or problems:
        return str(one["message"]).splitlines()[0]
    return "(nothing was said)"


def _differences(
    theirs: dict[str, Any], ours: dict[str, Any], fallback: str
) -> list[tuple[str, str]]:
    found = [("kind", _unequal(_kind(theirs["kind"]), _kind(ours["kind"])))]
    parents = (_our_name(key(name), fallback)[-1] for name in theirs["depends_on"])
    one = {name[-2:] if len(name) > 1 else (fallback, *name) for name in parents}
    two = {_table_name(key(name), fallback) for name in ours["depends_on"]}
    missing, more = sorted(one - two), sorted(two - one)
    shown = [f"without {'.'.join(n)}" for n in missing] + [f"also {'.'.join(n)}" for n in more]
    found.append(("dependencies", ", ".join(shown)))
    if _is_rendered(theirs):
        found.append(("query", _query_difference(theirs, ours, fallback)))
    called, named = (sorted(map(_audit_name, side["audits"])) for side in (theirs, ours))
    found.append(("audits", _unequal(called, named)))
    others = [f"{what}: {d}" for what in PROPERTIES if (d := _property(what, theirs, ours))]
    found.append(("properties", "; ".join(others)))
    return found


def _audit_name(call: str) -> str:
    return call.partition("(")[0].lower().removesuffix("_non_blocking")


def _table_name(parts: tuple[str, ...], fallback: str) -> tuple[str, ...]:
    if len(parts) == 1:
        return (fallback, *parts)
    return (parts[-2].rpartition("__")[2] or parts[-2], parts[-1])


def _kind(name: str) -> str:
    return {"SCD_TYPE_2": "SCD_TYPE_2_BY_TIME"}.get(name, name)


def _property(what: str, theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    one, two = theirs[what], ours[what]
    if what == "cron":
        one, two = SHORT_NAMES.get(one, one), SHORT_NAMES.get(two, two)
    if what == "description":
        one, two = " ".join((one or "").split()), " ".join((two or "").split())
    if what == "grains":
        one, two = (sorted(_columns_of(grain) for grain in grains) for grains in (one, two))
    if what == "columns":
        one, two = ([(n.lower(), _type(t)) for n, t in x.items()] for x in (one, two))
        if not one:
            return ""
    return _unequal(one or None, two or None)


def _columns_of(grain: str) -> str:
    return re.sub(r"^ARRAY|[()\[\]\s\"`]", "", grain, flags=re.IGNORECASE).lower()


def _type(text: str | None) -> str:
    try:
        return exp.DataType.build(text or "unknown", dialect="spark").sql(dialect="spark")
    except Exception:
        return str(text)


def _unequal(one: object, two: object) -> str:
    return "" if one == two else f"{one} there, {two} here"[:300]


def _query_difference(theirs: dict[str, Any], ours: dict[str, Any], fallback: str) -> str:
    if ours["query"] is None:
        return "no query here"
    try:
        one = _spark(theirs["query"], theirs["dialect"], fallback)
    except Exception as error:
        return f"SQLMesh's query cannot be read: {str(error).splitlines()[0]}"
    try:
        two = _spark(ours["query"], "spark", fallback)
    except Exception as error:
        return f"our query cannot be read: {str(error).splitlines()[0]}"
    one_text, two_text = one.sql(dialect="spark"), two.sql(dialect="spark")
    return "" if one_text == two_text else _first_difference(one_text, two_text)


def _spark(sql: str, dialect: str, fallback: str) -> exp.Expr:
    """Read a query as a tree in Spark's dialect that no way of writing tells from another."""
    if dialect != "spark":  # What is compared is what SQLGlot is given, not what it makes of it.
        name = dialect.split(",")[0]
        written = sqlglot.parse_one(sql, dialect=name or None)
        for columns in list(written.find_all(exp.Columns)):
            if isinstance(columns.parent, exp.Alias | exp.PropertyEQ):
                columns.parent.replace(columns)  # SQLMesh names what stands for many columns.
        plain = written.sql(dialect="spark", comments=False)
        try:
            sql = write_spark_sql(written, name)
        except Unwritable:
            sql = plain
    tree = sqlglot.parse_one(sql, dialect="spark")
    for node in list(tree.walk()):
        node.comments = None
        if isinstance(node, exp.Identifier):
            node.set("quoted", False)
            node.set("this", node.name.lower())
        if isinstance(node, exp.Table):
            _rename(node, fallback)
        elif isinstance(node, exp.Subquery | exp.Lateral):
            _without_alias(node, "")
    return tree.transform(_plain)


def _rename(table: exp.Table, fallback: str) -> None:
    parts = tuple(part.name for part in table.parts)
    if len(parts) == 3 and parts[0] == SQLMESH_CATALOG:
        parts = parts[1:]
    if len(parts) > 1:
        name = tuple(part.lower() for part in _table_name(parts, fallback))
        table.set("catalog", None)
        schema = None if name[0] in (fallback, SQLMESH_CATALOG) else exp.to_identifier(name[0])
        table.set("db", schema)
    _without_alias(table, table.name)


def _without_alias(relation: exp.Expr, name: str) -> None:
    """Take away the alias that SQLMesh gives to what has none, or one like the name."""
    alias = relation.args.get("alias")
    if isinstance(alias, exp.TableAlias) and not alias.columns:
        own = alias.name.lower()
        if own == name.lower() or re.fullmatch(r"_\d+|_t\d*|_q_\d+", own):
            relation.set("alias", None)


def _plain(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Paren):
        return node.this
    if isinstance(node, exp.Cast | exp.TsOrDsToDate | exp.Date | exp.Timestamp):
        inner = node.this
        if isinstance(inner, exp.Literal) and inner.is_string and _TIME.fullmatch(inner.this):
            return exp.Literal.string(inner.this.replace("T", " ").removesuffix("+00:00"))
    if isinstance(node, exp.Literal) and node.is_string and node.this.startswith("STRUCT<"):
        return exp.Literal.string(node.this.replace("`", ""))  # A type that a function takes.
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.JSONFormat):
        return node.this  # Which is a text already.
    if isinstance(node, exp.If) and not isinstance(node.parent, exp.Case):
        return exp.Case(
            ifs=[exp.If(this=node.this, true=node.args["true"])], default=_default(node)
        )
    if isinstance(node, exp.Literal) and node.is_string and _TIME.fullmatch(node.this):
        return exp.Literal.string(node.this.replace("T", " ").removesuffix("+00:00"))
    if isinstance(node, exp.Alias) and node.this.output_name == node.alias:
        return node.this  # SQLMesh writes the name that it has anyway.
    return node


def _default(node: exp.If) -> exp.Expr:
    return node.args.get("false") or exp.null()


def _first_difference(one: str, two: str) -> str:
    matcher = difflib.SequenceMatcher(None, one[:20_000], two[:20_000], autojunk=False)
    if len(one) * len(two) > 4_000_000:
        at = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), 0)
        return f"…{one[max(at - 40, 0) : at + 60]}… there, …{two[max(at - 40, 0) : at + 60]}… here"
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            return (
                f"…{one[max(a - 40, 0) : b + 40][:160]}… there, "
                f"…{two[max(c - 40, 0) : d + 40][:160]}… here"
            )
    return "the trees differ, the text does not"
