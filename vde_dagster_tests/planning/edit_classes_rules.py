"""What other tools rebuild after an edit, by their documented rules, as small functions.

Each takes the project before and after and returns the models whose tables are computed again
(views are left out: nobody computes data for them). Nothing here runs another tool.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp, parse_one
from sqlglot.optimizer.qualify import qualify

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.kinds import Seed

Snapshots = Mapping[ModelName, Snapshot]


@dataclass(frozen=True, slots=True)
class Project:
    """A project at one moment.

    Args:
        snapshots: Its models, parents first.
        texts: The text of each model's file, and of each seed's data.
    """

    snapshots: Snapshots
    texts: Mapping[ModelName, str]

    @classmethod
    def read(cls, root: Path, snapshots: Snapshots) -> Project:
        """Remember a project in a folder before it is edited."""
        texts = {}
        for name, snapshot in snapshots.items():
            kind = snapshot.model.kind
            texts[name] = _body(snapshot.model.source)
            if isinstance(kind, Seed):
                texts[name] = (root / kind.path).read_text()
        return cls(snapshots, texts)


def dbt_modified(old: Project, new: Project) -> set[str]:
    """`state:modified+`: a changed body or configuration, and everything downstream.

    The body is the raw text, comments and all. Descriptions, tests, tags and owners are no part
    of it here: they live in YAML, and count only with `persist_docs` (docs.getdbt.com,
    reference/node-selection/state-selection, "modified" and its subselectors).
    """
    changed = {
        name
        for name in new.snapshots
        if name not in old.snapshots
        or old.texts[name] != new.texts[name]
        or _configuration(old.snapshots[name]) != _configuration(new.snapshots[name])
    }
    return tables(new, changed | set(downstream(new.snapshots, changed)))


def dbt_state(old: Project, new: Project) -> set[str]:
    """dbt State: a changed syntax tree, and the descendants that depend on what changed.

    "Meaningless changes like whitespace or table aliases are not counted" (docs.getdbt.com,
    faqs/State/state-modified-difference); a descendant is rebuilt "only if it actually depends on
    the change" (the using-dbt-state skill). Read kindly: by columns where only columns changed.
    Python models are built by every run (faqs/State/python-models), views with `select *` too
    (faqs/State/views-rebuilt); neither has a table in this comparison.
    """
    rebuilt: set[ModelName] = set()
    touched: dict[ModelName, set[str] | None] = {}
    for name, snapshot in new.snapshots.items():
        before = old.snapshots.get(name)
        if before is None:
            rebuilt.add(name)
            continue
        changed, all_rows = _reached(snapshot, touched)
        if _state_tree(before) != _state_tree(snapshot):
            own = _changed_columns(before, snapshot)
            all_rows = all_rows or own is None
            changed |= own or set()
            rebuilt.add(name)
        if changed or all_rows:
            touched[name] = None if all_rows else changed
            rebuilt.add(name)
        if _configuration(before) != _configuration(snapshot):
            rebuilt.add(name)
    return tables(new, rebuilt)


def sqlmesh(old: Project, new: Project, *, earlier: Sequence[Project] = ()) -> set[str]:
    """SQLMesh: the data hash, the automatic category, and what each category backfills.

    The data hash covers the rendered (qualified, uncommented) query, the kind, partitioning,
    stamp and properties (`core/model/definition.py`, `_data_hash_values`). A change is
    non-breaking when it only inserts projections that are no table functions
    (`SqlModel.is_breaking_change`, `SeedModel.is_breaking_change`); a change of kind or lookback
    is breaking. Breaking backfills the model and all descendants, non-breaking the model alone
    (concepts/plans.md, "Change categories"). A `SELECT *` child counts as directly modified. A
    project that comes back finds its former snapshots (tests/core, `test_revert`).
    """
    if any(_same(project, new) for project in earlier):
        return set()
    before, after = _rendered(old.snapshots), _rendered(new.snapshots)
    rebuilt: set[ModelName] = set()
    breaking: set[ModelName] = set()
    for name, snapshot in new.snapshots.items():
        previous = old.snapshots.get(name)
        if previous is None:
            rebuilt.add(name)
            continue
        is_seed = isinstance(snapshot.model.kind, Seed)
        seed_changed = is_seed and _state_tree(previous) != _state_tree(snapshot)
        same = _configuration(previous) == _configuration(snapshot) and not seed_changed
        if same and before[name] == after[name]:
            continue
        rebuilt.add(name)
        if not _non_breaking(previous, snapshot, before[name], after[name]):
            breaking.add(name)
    return tables(new, rebuilt | set(downstream(new.snapshots, breaking)))


def _same(one: Project, two: Project) -> bool:
    return {n: s.id for n, s in one.snapshots.items()} == {
        n: s.id for n, s in two.snapshots.items()
    }


def tables(project: Project, names: Iterable[ModelName]) -> set[str]:
    """Only the models that own a table."""
    return {str(name) for name in names if project.snapshots[name].has_table}


def downstream(snapshots: Snapshots, of: set[ModelName]) -> Iterator[ModelName]:
    """Yield all descendants."""
    reached = set(of)
    for name, snapshot in snapshots.items():
        if any(parent in reached for parent in snapshot.parents):
            reached.add(name)
            yield name


def additive(old: exp.Expr | None, new: exp.Expr | None) -> bool:
    """Say whether a query differs from another one only by more projections in its SELECTs."""
    if type(old) is not type(new):
        return False
    if not isinstance(old, exp.Expression) or not isinstance(new, exp.Expression):
        return old == new
    keys = {key for key, value in (*old.args.items(), *new.args.items()) if value}
    for key in keys:
        one, two = old.args.get(key), new.args.get(key)
        if isinstance(old, exp.Select) and key == "expressions":
            if not _supersequence(one or [], two or []):
                return False
        elif isinstance(one, list) or isinstance(two, list):
            left, right = one or [], two or []
            if len(left) != len(right) or not all(map(additive, left, right)):
                return False
        elif isinstance(one, exp.Expression) or isinstance(two, exp.Expression):
            if not additive(one, two):
                return False
        elif (one or None) != (two or None):
            return False
    return True


def _supersequence(old: list[exp.Expr], new: list[exp.Expr]) -> bool:
    rest = list(old)
    for item in new:
        if rest and additive(rest[0], item):
            rest.pop(0)
        elif item.find(exp.UDTF) is not None:
            return False
    return not rest


def _non_breaking(
    previous: Snapshot, snapshot: Snapshot, before: exp.Expr | None, after: exp.Expr | None
) -> bool:
    old_kind, new_kind = previous.model.kind, snapshot.model.kind
    if isinstance(old_kind, Seed) and isinstance(new_kind, Seed):
        return set(old_kind.column_hashes) <= set(new_kind.column_hashes) and (
            old_kind.rows_hash == new_kind.rows_hash
        )
    return repr(old_kind) == repr(new_kind) and additive(before, after)


def _rendered(snapshots: Snapshots) -> dict[ModelName, exp.Expr | None]:
    """Queries as SQLMesh renders them for its hash: qualified, stars expanded, no comments."""
    schema: dict[str, dict[str, dict[str, str]]] = {}
    out: dict[ModelName, exp.Expr | None] = {}
    for name, snapshot in snapshots.items():
        columns = {column.name: column.type or "UNKNOWN" for column in snapshot.columns}
        schema.setdefault(name.namespace, {})[name.name] = columns
        query = snapshot.model.query
        known = {n.namespace: schema[n.namespace] for n in snapshot.parents}
        out[name] = _qualified(query, json.dumps(known)) if query is not None else None
    return out


@functools.cache
def _qualified(query: str, schema: str) -> exp.Expr:
    tree = parse_one(query, read="spark")
    for node in tree.walk():
        node.comments = None
    known: dict[str, object] = json.loads(schema)
    return qualify(tree, schema=known, dialect="spark", validate_qualify_columns=False)


def _body(text: str) -> str:
    """The file without its MODEL header, which in dbt is configuration."""
    return text.partition(");")[2]


def _configuration(snapshot: Snapshot) -> tuple[object, ...]:
    model = snapshot.model
    kind = model.kind.name if isinstance(model.kind, Seed) else repr(model.kind)
    return (kind, model.partitioned_by, model.clustered_by, model.table_properties, model.stamp)


def _state_tree(snapshot: Snapshot) -> str | None:
    """The query's syntax tree (a seed's columns) without the names of aliases and CTEs."""
    kind = snapshot.model.kind
    if isinstance(kind, Seed):
        return repr((kind.rows_hash, kind.column_hashes))
    return _nameless(snapshot.model.query) if snapshot.model.query is not None else None


@functools.cache
def _nameless(query: str) -> str:
    tree = parse_one(query, read="spark")
    names: dict[str, str] = {}
    for alias in tree.find_all(exp.TableAlias):
        names[alias.name] = f"t{len(names)}"
        alias.set("this", exp.to_identifier(names[alias.name]))
    for table in tree.find_all(exp.Table):
        if not table.db and table.name in names:
            table.set("this", exp.to_identifier(names[table.name]))
    for column in tree.find_all(exp.Column):
        if column.table in names:
            column.set("table", exp.to_identifier(names[column.table]))
    return tree.sql("spark", comments=False)


def _changed_columns(before: Snapshot, after: Snapshot) -> set[str] | None:
    """Columns added, removed or changed, when the rest of the query stayed; else None: all."""
    old_kind, new_kind = before.model.kind, after.model.kind
    if isinstance(old_kind, Seed) and isinstance(new_kind, Seed):
        if old_kind.rows_hash != new_kind.rows_hash:
            return None
        pairs = set(old_kind.column_hashes) ^ set(new_kind.column_hashes)
        return {name for name, _ in pairs}
    one, two = before.model.query, after.model.query
    if one is None or two is None:
        return None
    left, right = parse_one(one, read="spark"), parse_one(two, read="spark")
    if not isinstance(left, exp.Select) or not isinstance(right, exp.Select):
        return None
    items = [
        {item.alias_or_name: item.sql() for item in tree.expressions} for tree in (left, right)
    ]
    for tree in (left, right):
        tree.set("expressions", [])
    if left != right:
        return None
    return {name for name in {*items[0], *items[1]} if items[0].get(name) != items[1].get(name)}


def _reached(
    snapshot: Snapshot, touched: Mapping[ModelName, set[str] | None]
) -> tuple[set[str], bool]:
    """Say which output columns of a child depend on a change, and whether its rows do."""
    columns: set[str] = set()
    for parent in snapshot.parents:
        if parent not in touched:
            continue
        names = touched[parent]
        if names is None:
            return columns, True
        for read in snapshot.reads:
            if read.parent == str(parent) and read.column in names:
                if read.output is None:
                    return columns, True
                columns.add(read.output)
    return columns, False
