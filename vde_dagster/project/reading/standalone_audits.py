"""Standalone audits: `AUDIT (name x, standalone true, …); SELECT …` becomes a separate model.

They are nodes of the graph that depend on the models they read, and never block a publication.
SQLMesh's node properties apply to them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from vde_dagster.errors import ProjectError
from vde_dagster.project.kinds import StandaloneAudit
from vde_dagster.project.model import Audit, LoadedFile, LoadedModel, Model
from vde_dagster.project.properties.times import read_times
from vde_dagster.project.reading.audits import AuditDefinition, expanded_query, read_audit
from vde_dagster.project.reading.file_context import FileContext, read_name
from vde_dagster.project.reading.statements import Block, read_blocks


def load_audit_file(path: Path, text: str, context: FileContext) -> LoadedFile:
    """Read the standalone audits in a file, each as a model of kind StandaloneAudit."""
    dialect = context.settings.dialect
    source, blocks = read_blocks(path, text, dialect)
    read = [(block, read_audit(block, source, dialect)) for block in blocks]
    return LoadedFile(
        path,
        tuple(
            _read_audit_model(block, definition, context)
            for block, definition in read
            if definition.standalone and not definition.skip
        ),
    )


def _read_audit_model(
    block: Block, definition: AuditDefinition, context: FileContext
) -> LoadedModel:
    given = block.header.properties
    if "blocking" in given and definition.blocking:
        raise given["blocking"].error(
            "a standalone audit never blocks a publication",
            "remove 'blocking', or make it an audit of the last model that it reads",
        )
    name = read_name(given["name"].identifier(), context.names, given["name"].error)
    scope = dataclasses.replace(context.scope(definition.dialect), model=name)
    sql, reads = expanded_query(definition, {}, context.audit_context(scope))
    if "@this_model" in sql:
        raise ProjectError(
            "@this_model is undefined, because a standalone audit belongs to no model",
            hint="write the names of the models that it reads",
            location=definition.location,
        )
    for value in given["depends_on"].items() if "depends_on" in given else ():
        reads.setdefault(
            read_name(value.identifier(), context.names, value.error), value.location()
        )
    reads.pop(name, None)
    trusted = () if scope.dialect == "spark" else tuple(sorted(scope.dialect_trust))
    audit = Audit(
        *(definition.name, (), sql, False, tuple(sorted(reads))),
        dialect=scope.dialect,
        dialect_trust=trusted,
    )
    model = Model(
        name=name,
        kind=StandaloneAudit(),
        location=definition.location,
        source=definition.source.text,
        audits=(audit,),
        depends_on=tuple(sorted(reads)),
        owner=given["owner"].text() if "owner" in given else context.settings.owner,
        tags=given["tags"].texts() if "tags" in given else (),
        stamp=given["stamp"].text() if "stamp" in given else None,
        description=given["description"].text() if "description" in given else None,
        **read_times(given, context.settings),
    )
    return LoadedModel(model, reads)
