"""`* EXCEPT (…)`, which Trino has not, with its columns written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def write_out_stars(tree: exp.Expr) -> bool:
    """Write out, in place, every star of a query that leaves columns out.

    Args:
        tree: The query, as read from Spark SQL.

    Returns:
        Whether none is left: the columns of a table that is read by its name are not known here.
    """
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    if not any(_is_written_out(star) for star in tree.find_all(exp.Star)):
        return True
    # Inner queries come first, so that outer ones find columns in place of stars.
    for scope in traverse_scope(tree):
        select = scope.expression
        if not isinstance(select, exp.Select):
            continue
        items: list[exp.Expr] = []
        for item in select.expressions:
            star = _star(item)
            found = None
            if star is not None and _is_written_out(star):
                found = _columns(select, item.args.get("table"), star)
            items += [item] if found is None else found
        select.set("expressions", items)
    return not any(_is_written_out(star) for star in tree.find_all(exp.Star))


def _is_written_out(star: exp.Star) -> bool:
    return any(star.args.get(key) for key in ("except_", "replace", "rename"))


def _star(item: exp.Expr) -> exp.Star | None:
    from sqlglot import exp

    inner = item.this if isinstance(item, exp.Column) else item
    return inner if isinstance(inner, exp.Star) else None


def _columns(select: exp.Select, source: exp.Expr | None, star: exp.Star) -> list[exp.Expr] | None:
    """Return what a star stands for, or None where that is not known."""
    from sqlglot import exp

    if star.args.get("replace") or star.args.get("rename"):
        return None
    found = _sources(select, source.name if source is not None else None)
    if found is None:
        return None
    dropped = {item.name.lower() for item in star.args["except_"]}
    return [
        exp.column(name, table=alias, quoted=True)
        for alias, names in found
        for name in names
        if name.lower() not in dropped
    ]


def _sources(select: exp.Select, wanted: str | None) -> list[tuple[str, list[str]]] | None:
    """Return (alias, columns) of what a query reads: of all, or of the source of a name."""
    begin = select.args.get("from_")
    if begin is None or select.args.get("laterals"):
        return None
    read = [begin.this]
    for join in select.args.get("joins") or ():
        if wanted is None and (join.args.get("using") or join.method):
            return None  # Columns that both sides have come once.
        if join.kind.upper() not in ("SEMI", "ANTI") and join.side.upper() not in ("SEMI", "ANTI"):
            read.append(join.this)
    found = []
    for source in read:
        alias = source.alias_or_name
        if wanted is not None and alias.lower() != wanted.lower():
            continue
        names = _names(source)
        if not alias or names is None or len({name.lower() for name in names}) < len(names):
            return None
        found.append((alias, names))
    return found or None


def _names(source: exp.Expr) -> list[str] | None:
    """Return the names of a source's columns; those of a query that have none get some."""
    from sqlglot import exp

    alias = source.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        return [column.name for column in alias.columns]
    if isinstance(source, exp.Subquery):
        return _outputs(source.unnest())
    if isinstance(source, exp.Table) and not source.db:
        cte = _cte(source)
        return None if cte is None else _names_of_cte(cte)
    return None


def _names_of_cte(cte: exp.CTE) -> list[str] | None:
    columns = cte.args["alias"].columns
    return [column.name for column in columns] if columns else _outputs(cte.this)


def _cte(table: exp.Table) -> exp.CTE | None:
    """Return the nearest common table expression of a table's name that it sees."""
    from sqlglot import exp

    node: exp.Expr | None = table
    within: exp.Expr | None = None
    while node is not None:
        above = node.args.get("with_")
        for cte in above.expressions if above is not None else ():
            if cte is within:
                break  # It sees those before it only.
            if cte.alias.lower() == table.name.lower():
                return cte  # type: ignore[no-any-return]
        within = node if isinstance(node, exp.CTE) else within
        node = node.parent
    return None


def _outputs(query: exp.Expr) -> list[str] | None:
    from sqlglot import exp

    while isinstance(query, (exp.SetOperation, exp.Subquery)):
        query = query.this
    if not isinstance(query, exp.Select):
        return None
    names: list[str] = []
    for number, item in enumerate(query.expressions):
        star = _star(item)
        if star is not None:
            table = item.args.get("table")
            found = _sources(query, table.name if table is not None else None)
            if found is None or _is_written_out(star):
                return None
            names += [name for _, columns in found for name in columns]
            continue
        if not isinstance(item, (exp.Column, exp.Alias)):
            name = item.output_name or f"_c{number}"
            query.expressions[number].replace(exp.alias_(item.copy(), name, quoted=True))
            names.append(name)
        else:
            names.append(item.alias_or_name)
    return names
