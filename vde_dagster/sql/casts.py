"""Casts of structs that match fields by name, because Spark's CAST matches them by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlglot import exp

from vde_dagster.base.names import string_literal
from vde_dagster.sql.reading import call_name, is_star, parse_type, read_query


class UnmatchedField(ValueError):
    """A struct value has a field that the wanted type does not have.

    Args:
        field: The field's path from the column, for example `items.element.price`.
        known: The fields that the wanted type has instead.
    """

    def __init__(self, field: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no field {field}")
        self.field = field
        self.known = known


def cast_by_name(value: str, has: str, wanted: str, *, strict: bool = True) -> str:
    """Write a cast from one Spark SQL type to another that matches fields of structs by name.

    A field that the value lacks becomes NULL.

    Raises:
        UnmatchedField: The wanted type lacks a field of the value. Without `strict`, the field is
            left out instead.

    >>> cast_by_name("s", "struct<y:int,x:int>", "struct<x:int,y:int>")
    "CAST(IF(s IS NULL, NULL, named_struct('x', s['x'], 'y', s['y'])) AS struct<x:int,y:int>)"
    >>> cast_by_name("`s`", "STRUCT<x: INT>", "STRUCT<x: BIGINT>")
    'CAST(`s` AS STRUCT<x: BIGINT>)'
    """
    arranged = value
    if "<" in has and "<" in wanted:
        kinds = parse_type(has), parse_type(wanted)
        arranged = _FieldMatcher(strict).value(value, *kinds, "", 0)
    return f"CAST({arranged} AS {wanted})"


def read_fields(value: str, has: str, wanted: str) -> str:
    """Write an expression that reads exactly the fields of the wanted type from a value, by name.

    The result has no other fields, even if the value has more at run time. A missing field becomes
    an untyped NULL.

    >>> read_fields("s", "struct<x:int,y:int>", "struct<x:int>")
    "IF(s IS NULL, NULL, named_struct('x', s['x']))"
    """
    kinds = parse_type(has), parse_type(wanted)
    return _FieldMatcher(strict=False, always=True).value(value, *kinds, "", 0)


class _FieldMatcher:
    def __init__(self, strict: bool, always: bool = False) -> None:
        self.strict = strict
        self.always = always

    def value(
        self, value: str, has: exp.DataType, wanted: exp.DataType, path: str, depth: int
    ) -> str:
        """Write an expression for `value` whose structs have the wanted fields in their order."""
        if has.this != wanted.this:
            return value
        if has.this == exp.DType.STRUCT:
            return self._struct(value, has, wanted, path, depth)
        if has.this == exp.DType.ARRAY and has.expressions and wanted.expressions:
            one = f"_e{depth}"
            ends = has.expressions[0], wanted.expressions[0]
            made = self.value(one, *ends, f"{path}.element", depth + 1)
            return value if made == one else f"transform({value}, {one} -> {made})"
        if has.this == exp.DType.MAP and len(has.expressions) == len(wanted.expressions) == 2:
            for place, (name, function) in enumerate(
                (("key", "transform_keys"), ("value", "transform_values"))
            ):
                one = f"_{name[0]}{depth}"
                ends = has.expressions[place], wanted.expressions[place]
                made = self.value(one, *ends, f"{path}.{name}", depth + 1)
                if made != one:
                    value = f"{function}({value}, (_k{depth}, _v{depth}) -> {made})"
        return value

    def _struct(
        self, value: str, has: exp.DataType, wanted: exp.DataType, path: str, depth: int
    ) -> str:
        own, fields = _fields(has), _fields(wanted)
        unread = len(own) != len(has.expressions) or len(fields) != len(wanted.expressions)
        if unread or not own or not fields:
            return value  # Two fields differ in case alone, or have no names.
        extra = [name for key, (name, _) in own.items() if key not in fields]
        if extra and self.strict:
            known = tuple(name for name, _ in fields.values())
            raise UnmatchedField(f"{path}.{extra[0]}".lstrip("."), known)
        arranged = self.always or list(own) != list(fields)
        parts = []
        for key, (name, kind) in fields.items():
            made = "NULL"
            if key in own:
                own_name, own_kind = own[key]
                read = f"{value}[{string_literal(own_name)}]"
                made = self.value(read, own_kind, kind, f"{path}.{name}", depth)
                arranged = arranged or made != read
            parts.append(f"{string_literal(name)}, {made}")
        if not arranged:
            return value
        return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"


def _fields(struct: exp.DataType) -> Mapping[str, tuple[str, exp.DataType]]:
    found = {}
    for field in struct.expressions:
        kind = field.args.get("kind")
        if isinstance(field, exp.ColumnDef) and isinstance(kind, exp.DataType):
            found[field.name.lower()] = field.name, kind
    return found


def sort_type_fields(type_: str) -> str:
    """Write a Spark SQL type with the fields of its structs sorted by name.

    >>> sort_type_fields("array<struct<y:int,X:string>>")
    'ARRAY<STRUCT<x:STRING,y:INT>>'
    """
    if "<" not in type_:
        return type_
    return _sort_fields(parse_type(type_))


def _sort_fields(kind: exp.DataType) -> str:
    if kind.this == exp.DType.STRUCT:
        fields = sorted((name, _sort_fields(own)) for name, (_, own) in _fields(kind).items())
        return f"STRUCT<{','.join(f'{name}:{text}' for name, text in fields)}>"
    if kind.this in (exp.DType.ARRAY, exp.DType.MAP) and kind.expressions:
        inner = ",".join(map(_sort_fields, kind.expressions))
        return f"{kind.this.value}<{inner}>"
    return kind.sql("spark")


def struct_fields(query: str, column: str) -> list[tuple[str, ...]]:
    """Return the field names of each struct that a query creates for an output column.

    If the column's own expression creates no struct, return all structs of the query, except
    structs of other output columns.
    """
    tree = read_query(query).tree
    outputs = getattr(tree, "selects", ())
    own = [one for one in outputs if one.alias_or_name.lower() == column.lower()]
    found = [names for one in own for names in _created_structs(one)]
    if found:
        return found
    of_others = Counter(names for one in outputs for names in _created_structs(one))
    return list((Counter(_created_structs(tree)) - of_others).elements())


def whole_columns(query: str) -> set[str] | None:
    """Return the columns and fields that a query reads as whole values.

    Names are in lower case; `s.x` adds `x`, but not `s`. None means all names, because of a star.

    >>> sorted(whole_columns("SELECT s.x, t.r.y.z, upper(u) FROM t") or ())
    ['u', 'x', 'z']
    """
    tree = read_query(query).tree
    if any(is_star(one) for one in tree.find_all(exp.Star)):
        return None
    return {column.name.lower() for column in tree.find_all(exp.Column, exp.Dot)}


def type_fields(type_: str) -> list[tuple[str, ...]]:
    """Return the field names of each struct in a Spark SQL type, outer structs first.

    >>> type_fields("array<struct<y:int,X:struct<a:int>>>")
    [('y', 'x'), ('a',)]
    """
    if "<" not in type_:
        return []
    structs = (one for one in parse_type(type_).walk() if isinstance(one, exp.DataType))
    return [tuple(_fields(one)) for one in structs if one.this == exp.DType.STRUCT]


def _created_structs(tree: exp.Expr) -> list[tuple[str, ...]]:
    found = []
    for node in tree.walk():
        name = call_name(node) if isinstance(node, exp.Anonymous) else ""
        if name in ("struct", "named_struct"):
            named = node.expressions if name == "struct" else node.expressions[::2]
            found.append(tuple(map(_field_name, named)))
    return found


def _field_name(field: exp.Expr) -> str:
    if isinstance(field, exp.Literal):
        return str(field.this).strip("'\"").lower()
    return str(field.alias_or_name or field.sql("spark")).lower()
