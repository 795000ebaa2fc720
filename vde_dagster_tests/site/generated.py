"""Documents of as many models as a test wants, made without files and state."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from vde_dagster.overviews.documentation.values import (
    DOCUMENT_VERSION,
    AuditOutcome,
    ColumnFlow,
    Document,
    DocumentedAudit,
    DocumentedColumn,
    DocumentedEnvironment,
    DocumentedModel,
    DocumentedTable,
    FillCost,
    Publication,
    Range,
    RowsChanged,
    ShownModel,
)

AS_OF = datetime(2026, 11, 28, 6, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
LAYERS = 10


def generated(count: int, columns: int = 20, fills: int = 5) -> Document:
    """Return a document of models in ten layers, each with one or two parents, shown in prod.

    Args:
        columns: Of each model; half of them described, half of those by their parent.
        fills: Of each table.
    """
    models: list[DocumentedModel] = []
    names = [f"layer_{number * LAYERS // count}.model_{number:05d}" for number in range(count)]
    wide = max(1, count // LAYERS)
    readers: dict[str, list[str]] = {}
    listed = [f"measure_{at}" for at in range(columns)]
    for number, name in enumerate(names):
        above = {number - wide, number - wide - (7 * number) % (wide + 1)} if number >= wide else ()
        parents = tuple(sorted(names[one] for one in above if one >= 0))
        for parent in parents:
            readers.setdefault(parent, []).append(name)
        models.append(_model(name, parents, listed))
    models = [_read_by(model, readers.get(model.name, [])) for model in models]
    tables = tuple(_table(number, model.name, fills) for number, model in enumerate(models))
    whole = (Range(AS_OF - 24 * 365 * HOUR, AS_OF - 6 * HOUR),)
    cells = tuple(
        ShownModel(
            model.name, model.snapshot, model.version, model.name, table.id, "own", None, None,
            whole, (), 1000 + number, 2**61 + number, AS_OF - 7 * HOUR,
        )
        for number, (model, table) in enumerate(zip(models, tables, strict=True))
    )  # fmt: skip
    prod = DocumentedEnvironment(
        "prod", 41, AS_OF - HOUR, "ann", "prod-41", "a note", None, None, cells
    )
    rows = tuple(RowsChanged((name,), "changed", 1000, 10, 2, whole) for name in names)
    published = Publication(
        "prod", 41, "data", AS_OF - HOUR, "ann", "prod-41", "a note", False, 0, 0, 0, (), rows
    )
    return Document(
        DOCUMENT_VERSION, "generated", "files", AS_OF, "lakehouse", tuple(models), (), tables,
        (prod,), (published,), (), (),
    )  # fmt: skip


def _model(name: str, parents: tuple[str, ...], listed: list[str]) -> DocumentedModel:
    number = name[-5:]
    read = " CROSS JOIN ".join(parents) or "raw.rows"
    body = ",\n  ".join(f"sum(one.{column}) AS {column}" for column in listed[1:])
    source = (
        f"MODEL (name {name}, kind FULL, cron '@daily', owner team_{int(number) % 5},\n"
        f"  description 'Sums of the day for the part {number} of the business');\n"
        f"SELECT one.{listed[0]},\n  {body}\nFROM {read} AS one"
        f"\nGROUP BY one.{listed[0]}\n"
    )
    flows = [ColumnFlow(None, parent, listed[0], "group") for parent in parents]
    for parent in parents[:1]:
        flows.append(ColumnFlow(listed[0], parent, listed[0], "identity"))
        flows += [ColumnFlow(one, parent, one, "aggregation") for one in listed[1:]]
    columns = tuple(
        DocumentedColumn(
            column,
            "DECIMAL(38,6)" if at else "DATE",
            f"{at:032x}",
            f"What was measured as {at} by the day" if at % 2 else None,
            f"{parents[0]}.{column}" if parents and at % 4 == 1 else None,
        )
        for at, column in enumerate(listed)
    )
    return DocumentedModel(
        name=name, snapshot=f"snapshot-{number}", version=f"{int(number) * 7919:012x}", kind="FULL",
        kind_text="FULL", is_shown=True, has_table=True, cron="0 0 * * *", cron_tz=None, unit=None,
        owner=f"team_{int(number) % 5}", tags=("daily", "core"), grains=(("measure_0",),),
        partitioned_by=(), description=f"Sums of the day for the part {number} of the business",
        path=f"models/{name}.sql", line=1, source=source,
        query=" ".join(source.partition(";\n")[2].split()), opaque=None, columns=columns,
        flows=tuple(flows), tests=(), parents=parents, readers=(), exposures=(),
        audits=(DocumentedAudit("not_null(columns=(measure_0))", True,
                                "SELECT * FROM @this_model WHERE measure_0 IS NULL"),),
    )  # fmt: skip


def _read_by(model: DocumentedModel, readers: list[str]) -> DocumentedModel:
    return replace(model, readers=tuple(sorted(readers)))


def _table(number: int, model: str, fills: int) -> DocumentedTable:
    days = [
        Range(AS_OF - (24 * at + 30) * HOUR, AS_OF - (24 * at + 6) * HOUR) for at in range(fills)
    ]
    return DocumentedTable(
        f"table-{number}",
        f"vde__{model}__{number:012x}_{number:06x}",
        None,
        f"snapshot-{number:05d}",
        (Range(AS_OF - 24 * 365 * HOUR, AS_OF - 6 * HOUR),),
        tuple(
            FillCost(
                day, "prod-41", day.end + HOUR, 1000 + number, 123456 + number, 12.345, False, 7
            )
            for day in days
        ),
        (AuditOutcome(model, "not_null(columns=(measure_0))", True, 0, days[0], "prod-41", AS_OF),),
    )
