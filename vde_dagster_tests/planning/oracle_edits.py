"""Random edits of small projects: of queries, of what surrounds them, of the set of models."""

from __future__ import annotations

import random
from dataclasses import replace

from sqlglot import parse_one

from vde_dagster.base.names import ModelName
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, View
from vde_dagster.project.model import Audit, Model
from vde_dagster_tests.planning.oracle_data import Models, with_query
from vde_dagster_tests.planning.oracle_query_edits import QUERY_EDITS, SAFE_FOR_DAYS


def edit_query(model: Model, rng: random.Random) -> tuple[Model, str] | None:
    """Change a model's query."""
    assert model.query is not None
    by_days = not isinstance(model.kind, Full | View)
    edit = rng.choice(SAFE_FOR_DAYS if by_days else QUERY_EDITS)
    tree = edit(parse_one(model.query, dialect="spark"), rng)
    if tree is None:
        return None
    if by_days and any(w in tree.sql("spark") for w in (" OVER (", "EXPLODE(")):
        return None
    return with_query(model, tree.sql("spark")), edit.__name__


def edit_properties(model: Model, rng: random.Random) -> tuple[Model, str]:
    """Change what surrounds the query."""
    audit = Audit("unique_values", (("columns", "(k)"),), "SELECT 1 WHERE FALSE", blocking=False)
    edits = [
        (replace(model, description=f"text {rng.randint(0, 9)}"), "description"),
        (replace(model, owner="anna", tags=("core",)), "owner and tags"),
        (replace(model, stamp=str(rng.randint(0, 2))), "stamp"),
        (replace(model, audits=(audit,)), "audit"),
        (replace(model, partitioned_by=("k",)), "partitioning"),
        (replace(model, query=f"/* {rng.randint(0, 9)} */ {model.query}"), "comment"),
    ]
    if isinstance(model.kind, Full | View):
        other = View() if isinstance(model.kind, Full) else Full()
        edits += [(replace(model, kind=other), "kind")] * 2
    elif isinstance(model.kind, IncrementalByTimeRange):
        edits.append((replace(model, kind=replace(model.kind, lookback=1)), "lookback"))
    return rng.choice(edits)


def edit_project(models: Models, rng: random.Random) -> tuple[Models, str] | None:
    """One random edit of a project, or None when it does not fit."""
    own = [name for name, model in models.items() if model.query is not None]
    name = rng.choice(own)
    roll = rng.random()
    if roll < 0.78:
        edited = edit_query(models[name], rng)
    elif roll < 0.9:
        edited = edit_properties(models[name], rng)
    elif roll < 0.94:
        copy = ModelName("m", f"copy{rng.randint(0, 3)}")
        return {**models, copy: replace(models[name], name=copy)}, "copy"
    elif roll < 0.97:
        gone = {key: model for key, model in models.items() if key != name}
        if len(own) < 2 or any(name in model.depends_on for model in gone.values()):
            return None
        new = ModelName("m", f"renamed{rng.randint(0, 9)}")
        return (
            {**gone, new: replace(models[name], name=new)},
            "rename",
        )
    else:
        if len(own) < 2 or any(name in model.depends_on for model in models.values()):
            return None
        return {key: model for key, model in models.items() if key != name}, "remove"
    if edited is None:
        return None
    return {**models, name: edited[0]}, edited[1]
