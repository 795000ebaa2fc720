"""Fields inside a table's columns: fields added in place, and fields that a definition shows.

Iceberg adds a field to a struct at any depth without rewriting files. All definitions and branches
of a table share the table's schema. So every reader lists the fields that the reader's definition
has. A field's path begins inside its column, and consists of names of fields, `element` for an
array and `value` for a map. Fields in the keys of maps have no path. Like a column, a field added
in place has a version: a field of the same name and another type has another version and another
name in the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sqlglot import exp

Path = tuple[str, ...]


class Field(NamedTuple):
    """A field of a struct.

    Args:
        version: Hash that identifies a field that was added in place; empty for other fields.
    """

    path: Path
    version: str = ""

    @property
    def lower_path(self) -> Path:
        return _key(self.path)

    @property
    def texts(self) -> tuple[str, ...]:
        """The field's path and version, for hashing."""
        return *self.path, self.version


Fields = tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class ShownFields:
    """The Spark SQL types that a definition needs to read and fill a nested column of a table.

    Args:
        has: The column's type in the table.
        read: The type of the fields that the definition shows, with the table's names.
        shown: The same type with the definition's names.
        filled: `has` with the definition's names.
    """

    # A column without fields is always cast, because its type in the table may become wider than
    # `shown`.
    has: str
    read: str
    shown: str
    # A hidden field has a name that no query uses.
    filled: str

    def value(self, column: str, has: str | None = None) -> str:
        """Return Spark SQL that reads a quoted column as the definition shows it.

        Args:
            has: The column's type in a pinned Iceberg snapshot; None for the table's type.
        """
        from vde_dagster.sql.casts import read_fields

        if not is_nested(self.has):
            return f"CAST({column} AS {self.shown})"
        named = read_fields(column, has or self.has, self.read)
        return named if self.read == self.shown else f"CAST({named} AS {self.shown})"

    def stored(self, value: str, has: str, *, strict: bool = True) -> str:
        """Return Spark SQL that casts a value of type `has` to the table's type, by field names.

        Args:
            strict: Whether a field that the definition's type lacks is an error. Otherwise it is
                left out.

        Raises:
            UnmatchedField: `strict` is set, and the definition's type lacks a field of the value.
        """
        from vde_dagster.sql.casts import cast_by_name, read_fields

        cast_by_name(value, has, self.shown, strict=strict)
        if not is_nested(has):
            return f"CAST({value} AS {self.has})"
        return f"CAST({read_fields(value, has, self.filled)} AS {self.has})"


def is_nested(type_: str | None) -> bool:
    """Return whether a Spark SQL type has fields."""
    return type_ is not None and "struct<" in type_.lower()


def read_as_type(type_: str, has: str) -> ShownFields:
    """Describe how to read a column without fields, of type `has`, as the type `type_`."""
    return ShownFields(has, has, type_, has)


@lru_cache(maxsize=10_000)
def select_fields(has: str, added: Fields, shown: Fields) -> ShownFields:
    """Describe how a definition reads and fills a column.

    Args:
        has: The column's Spark SQL type in the table.
        added: The table's fields that were added in place, by their paths in the table.
        shown: The definition's fields at every depth, in order; empty for the original fields.
    """
    return _Showing(dict(added), shown).fields(has)


class _Showing:
    def __init__(self, added: Mapping[Path, str], shown: Fields) -> None:
        self.added = {_key(path): version for path, version in added.items()}
        self.all = not shown
        self.shown: dict[Path, dict[str, Field]] = {}
        for field in shown:
            parent = self.shown.setdefault(_key(field.path[:-1]), {})
            parent[field.path[-1].lower()] = field

    def fields(self, has: str) -> ShownFields:
        read, shown, filled = self._kinds(_parsed(has), (), ())
        return ShownFields(has, *(kind.sql("spark") for kind in (read, shown, filled)))

    def _kinds(
        self, has: exp.DataType, place: Path, path: Path
    ) -> tuple[exp.DataType, exp.DataType, exp.DataType]:
        from sqlglot import exp

        if has.this == exp.DType.STRUCT:
            return self._struct(has, place, path)
        step = _step_into(has)
        if step is None:
            return has.copy(), has.copy(), has.copy()
        *keys, last = has.expressions
        inner = self._kinds(last, (*place, step), (*path, step))
        one, two, three = (_with_parts(has, [*keys, kind]) for kind in inner)
        return one, two, three

    def _struct(
        self, has: exp.DataType, place: Path, path: Path
    ) -> tuple[exp.DataType, exp.DataType, exp.DataType]:
        wanted = None if self.all else self.shown.get(_key(path), {})
        found: dict[str, tuple[exp.Expr, exp.Expr]] = {}
        filled = []
        for number, part in enumerate(has.expressions):
            own = (*place, part.name)
            name = self._name(own, wanted)
            if name is None:
                filled.append(_field(f"vde hidden {number}", part.args["kind"]))
                continue
            kinds = self._kinds(part.args["kind"], own, (*path, name))
            found[name.lower()] = _field(part.name, kinds[0]), _field(name, kinds[1])
            filled.append(_field(name, kinds[2]))
        order = list(found) if wanted is None else [key for key in wanted if key in found]
        return (
            _with_parts(has, [found[key][0] for key in order]),
            _with_parts(has, [found[key][1] for key in order]),
            _with_parts(has, filled),
        )

    def _name(self, place: Path, wanted: Mapping[str, Field] | None) -> str | None:
        """Return a table field's name in the definition, or None if the definition hides it."""
        version = self.added.get(_key(place), "")
        if wanted is None:
            return None if version else place[-1]
        if version:
            return next((f.path[-1] for f in wanted.values() if f.version == version), None)
        field = wanted.get(place[-1].lower())
        return field.path[-1] if field is not None and not field.version else None


def _parsed(type_: str) -> exp.DataType:
    # Importing SQLGlot takes a large part of a short command's time.
    from vde_dagster.sql.reading import parse_type

    return parse_type(type_)


def _key(path: Path) -> Path:
    return tuple(name.lower() for name in path)


def _field(name: str, kind: exp.DataType) -> exp.ColumnDef:
    from sqlglot import exp

    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return exp.ColumnDef(this=exp.to_identifier(name, quoted=not plain), kind=kind.copy())


def _with_parts(kind: exp.DataType, parts: Iterable[exp.Expr]) -> exp.DataType:
    from sqlglot import exp

    return exp.DataType(this=kind.this, expressions=[one.copy() for one in parts], nested=True)


def typed_fields(type_: str) -> dict[Path, str]:
    """Return the Spark SQL type of every field of a type, by its path in lower case."""
    return {_key(path): kind.sql("spark") for path, kind in _walk(_parsed(type_))}


def list_fields(type_: str) -> Fields:
    """Return all fields of a Spark SQL type, in its order and without versions."""
    return tuple(Field(path) for path, _ in _walk(_parsed(type_)))


def _walk(kind: exp.DataType, path: Path = ()) -> Iterator[tuple[Path, exp.DataType]]:
    from sqlglot import exp

    if kind.this == exp.DType.STRUCT:
        for part in kind.expressions:
            own, inner = (*path, part.name), part.args["kind"]
            yield own, inner
            yield from _walk(inner, own)
    elif (step := _step_into(kind)) is not None:
        yield from _walk(kind.expressions[-1], (*path, step))


def _step_into(kind: exp.DataType) -> str | None:
    """Return the path element into a type: `element` for an array, `value` for a map, else None."""
    from sqlglot import exp

    step = {exp.DType.ARRAY: "element", exp.DType.MAP: "value"}.get(kind.this)
    return step if kind.expressions else None


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs between a column and a new definition of the column.

    Args:
        what: `added`, `retyped` or `removed`.
        was: Its Spark SQL type before; None for an added field.
        becomes: Its type in the new definition; None for a removed field.
    """

    path: Path
    what: str
    was: str | None = None
    becomes: str | None = None


@dataclass
class FieldMerge:
    """Compares a column with a new definition of the column, field by field.

    Args:
        same: Returns whether Iceberg stores two Spark SQL types as the same type.
        version: Computes the version of a new field from its path and its type.
        keeps_removed: Whether to keep fields that the new type lacks or retypes.
        leaves_added: Whether to leave out new fields.
    """

    same: Callable[[str, str], bool]
    version: Callable[[Path, str], str]
    keeps_removed: bool = False
    leaves_added: bool = False

    def __post_init__(self) -> None:
        self.changes: list[FieldChange] = []
        self._fields: list[Field] = []
        self._known: dict[Path, str] = {}

    def merge(self, old: str, fields: Fields, new: str) -> tuple[str, Fields] | None:
        """Return the type and fields of the changed column, or None if the whole type changes.

        Args:
            old, new: The column's Spark SQL type before, and in the new definition.
            fields: The fields of `old`.
        """
        self._known = {_key(field.path): field.version for field in fields}
        kind = self._merged(_parsed(old), _parsed(new), ())
        return None if kind is None else (kind.sql("spark"), tuple(self._fields))

    def _merged(self, old: exp.DataType, new: exp.DataType, path: Path) -> exp.DataType | None:
        from sqlglot import exp

        if old.this == new.this == exp.DType.STRUCT:
            return self._struct(old, new, path)
        step = _step_into(old)
        if step is None or old.this != new.this:
            leaves = not any(kind.args.get("nested") for kind in (old, new))
            return old if leaves and self.same(old.sql("spark"), new.sql("spark")) else None
        *keys, last = old.expressions
        *others, wanted = new.expressions
        if [_text(key) for key in keys] != [_text(key) for key in others]:
            return None
        made = self._merged(last, wanted, (*path, step))
        return None if made is None else _with_parts(old, [*keys, made])

    def _struct(self, old: exp.DataType, new: exp.DataType, path: Path) -> exp.DataType:
        wanted = {part.name.lower(): part for part in new.expressions}
        parts: list[exp.Expr] = []
        for part in old.expressions:
            own, kind = (*path, part.name), part.args["kind"]
            other = wanted.pop(part.name.lower(), None)
            if other is None:
                self.changes.append(FieldChange(own, "removed", kind.sql("spark")))
                if self.keeps_removed:
                    parts.append(self._kept(part, own))
                continue
            number, seen = len(self._fields), len(self.changes)
            self._fields.append(Field(own, self._known.get(_key(own), "")))
            made = self._merged(kind, other.args["kind"], own)
            if made is not None:
                parts.append(_field(part.name, made))
                continue
            del self._fields[number:], self.changes[seen:]
            types = kind.sql("spark"), other.args["kind"].sql("spark")
            self.changes.append(FieldChange(own, "retyped", *types))
            parts.append(self._kept(part, own) if self.keeps_removed else self._new(other, own))
        for other in wanted.values():
            own = (*path, other.name)
            self.changes.append(FieldChange(own, "added", None, other.args["kind"].sql("spark")))
            if not self.leaves_added:
                parts.append(self._new(other, own))
        return _with_parts(old, parts)

    def _kept(self, part: exp.Expr, path: Path) -> exp.Expr:
        for one in (path, *(inner for inner, _ in _walk(part.args["kind"], path))):
            self._fields.append(Field(one, self._known.get(_key(one), "")))
        return part.copy()

    def _new(self, part: exp.Expr, path: Path) -> exp.Expr:
        type_ = part.args["kind"].sql("spark")
        self._fields.append(Field(path, self.version(path, type_)))
        self._fields.extend(Field(inner) for inner, _ in _walk(part.args["kind"], path))
        return _field(part.name, part.args["kind"])


def _text(kind: exp.Expr) -> str:
    return kind.sql("spark").lower()


class NewField(NamedTuple):
    """A field to add to a table's column.

    Args:
        parent: The path, in the table, of the struct that gets the field.
    """

    parent: Path
    name: str
    type: str
    version: str


def missing_fields(has: str, added: Fields, shown: Fields, wanted: str) -> tuple[NewField, ...]:
    """Return the fields that a definition shows but a table's column lacks, outer fields first.

    Args:
        has: The column's Spark SQL type in the table.
        added: The table's fields that were added in place.
        shown: The definition's fields at every depth, in order.
        wanted: The column's type in the definition.
    """
    found: list[NewField] = []
    versions = {field.version for field in added if field.version}
    places = _places(has, added, shown)
    types = typed_fields(wanted)
    taken: defaultdict[Path, set[str]] = defaultdict(set)
    for field in list_fields(has):
        *struct, name = field.lower_path
        taken[tuple(struct)].add(name)
    for field in shown:
        if not field.version or field.version in versions:
            continue
        parent = places.get(_key(field.path[:-1]))
        if parent is None:
            continue  # A struct around it is new, and is added with all of its fields.
        known, name = taken[_key(parent)], field.path[-1]
        if name.lower() in known:
            name = f"{name}__{field.version[:6]}"
        while name.lower() in known:
            name += "_"
        known.add(name.lower())
        found.append(NewField(parent, name, types[_key(field.path)], field.version))
    return tuple(found)


def _places(has: str, added: Fields, shown: Fields) -> dict[Path, Path]:
    """Map the path of each struct that a definition shows to its path in the table."""
    showing, found = _Showing(dict(added), shown), dict[Path, Path]()

    def walk(kind: exp.DataType, place: Path, path: Path) -> None:
        from sqlglot import exp

        if kind.this == exp.DType.STRUCT:
            found[_key(path)] = place
            wanted = showing.shown.get(_key(path), {})
            for part in kind.expressions:
                name = showing._name((*place, part.name), wanted)
                if name is not None:
                    walk(part.args["kind"], (*place, part.name), (*path, name))
        elif (step := _step_into(kind)) is not None:
            walk(kind.expressions[-1], (*place, step), (*path, step))

    walk(_parsed(has), (), ())
    return found


def with_fields(type_: str, new: Iterable[NewField]) -> str:
    """Return a Spark SQL type with new fields, each at the end of its struct."""
    tree = _parsed(type_)
    for field in new:
        _struct_at(tree, field.parent).append(
            "expressions", _field(field.name, _parsed(field.type))
        )
    return tree.sql("spark")


def _struct_at(kind: exp.DataType, path: Path) -> exp.DataType:
    from sqlglot import exp

    for step in path:
        if kind.this == exp.DType.STRUCT:
            named = (p for p in kind.expressions if p.name.lower() == step.lower())
            kind = next(named).args["kind"]
        else:
            kind = kind.expressions[-1]
    return kind
