"""Plans as files: what one clone made, whole, for another to apply to the same state.

A file has the plan and every definition as the state stores them (`state.db.codec`), next to the
texts that people read, and the state that the plan was made for. A reader makes all texts again
from the stored values and compares them, so a text that differs from what would be applied is
refused like any other change. Plug-ins attach values of their own, such as signatures.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vde_dagster.base.names import ModelName
from vde_dagster.base.plugins import Seam
from vde_dagster.base.texts import and_more
from vde_dagster.errors import UsageError
from vde_dagster.execution.plans.plan_spelling import (
    canonical,
    file_bytes,
    parse_json,
    require_spelling,
)
from vde_dagster.execution.plans.proven_plan import is_applied, proven
from vde_dagster.planning.intervals.interval import iso
from vde_dagster.planning.plan.plan import Plan, PlanKind
from vde_dagster.planning.snapshots.identity import content_bytes, from_content
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.files import file_of_project
from vde_dagster.project.kinds.seed import Seed
from vde_dagster.project.serialise import from_bytes, to_bytes
from vde_dagster.state.db.codec import StoredPlan

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles

_VERSION = version("vde-dagster")
FORM = "vde-plan-1"
ATTACHED = "attached"
"""The part of a file that plug-ins write, each under its name; the plan's hash is not over it."""
MOST_DIFFERENCES = 5
MAX_BYTES = 500_000_000


class Attachment(Protocol):
    """What a plug-in attaches to plans, in their files and beside them in the state."""

    def take(self, handles: Handles, document: Mapping[str, Any], value: Any) -> None:
        """Keep what a file brings, once the file is known to be whole and of this state.

        Raises:
            UsageError: It is not what it says; nothing is kept.
        """

    def told(self, handles: Handles, plan_ids: Sequence[str]) -> Mapping[str, str]:
        """Return what the history of environments says of some plans, by id."""


ATTACHMENTS: Seam[Attachment] = Seam("attachments")


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as it was read from a file.

    Args:
        document: All of the file but what is attached; equal to `plan_document` of the plan.
        attached: What plug-ins wrote, by their names.
    """

    plan: Plan
    document: dict[str, Any]
    attached: dict[str, Any] = field(default_factory=dict)


def plan_document(plan: Plan, project: Mapping[str, str]) -> dict[str, Any]:
    """Return a plan as JSON's values, without what is attached to it.

    Args:
        plan: As the state has it: one that was made and not read again may have definitions that
            were hashed again.
        project: The project's `id` and `name`.
    """
    stored = to_bytes(StoredPlan(replace(plan, snapshots={}), tuple(plan.snapshots)))
    definitions = {
        key: _definition(snapshot, content_bytes(snapshot))
        for key, snapshot in plan.snapshots.items()
    }
    shown = {str(model): key for model, key in _shown(plan).items()}
    tables = {
        model.table.id: {
            "model": str(model.name),
            "table": str(model.table.ref),
            "filled": model.table.intervals.to_json(),
        }
        for model in plan.models
        if model.table is not None and model.table.created
    }
    document = {
        "form": FORM,
        "made_by": _VERSION,
        "project": dict(project),
        "plan": plan.to_json(),
        "definitions": definitions,
        "state": {"version": plan.base_version, "shows": shown, "tables": tables},
        "stored": b64encode(stored).decode(),
    }
    plain: dict[str, Any] = json.loads(canonical(document))
    return {**plain, "hash": hashlib.sha256(canonical(plain)).hexdigest()}


def project_of(handles: Handles) -> dict[str, str]:
    """Return what a file says of its project: the id, or the name where there is none."""
    own = handles.settings.identity
    return {"id": own.id} if own.id else {"name": own.name if own.named else ""}


def is_file_name(text: str) -> bool:
    """Say whether a text names a file rather than a stored plan: ids have no dots and slashes."""
    return "." in text or "/" in text or os.sep in text


def save_plan(handles: Handles, plan_id: str, path: Path) -> None:
    """Write a stored plan to a file.

    Raises:
        UsageError: No plan has this id, it is a run, or the file cannot be written.
    """
    plan = handles.store.plans.load(plan_id)
    if plan.kind is PlanKind.RUN:
        raise UsageError(
            f"plan {plan_id} is a run, which no file has",
            hint=f"compute what is due there: vde run {plan.environment}",
        )
    write_plan(path, {**plan_document(plan, project_of(handles)), ATTACHED: {}})


def write_plan(path: Path, content: Mapping[str, Any]) -> None:
    """Write a plan's file whole or not at all, with the same bytes for the same plan."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(file_bytes(content))
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def read_plan(path: Path) -> PlanFile:
    """Read a plan's file, and make sure that it is whole and in its one spelling.

    Raises:
        UsageError: The file cannot be read, is not a plan, is spelled otherwise than `write_plan`
            does, or has a text that differs from what would be applied.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is not a plan: it has more than {MAX_BYTES:,} bytes")
        data = path.read_bytes()
    except OSError as error:
        hint = "`vde plan ENV --save FILE` writes one"
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=hint) from error
    try:
        content = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise _not_a_plan(path, f"it is not valid JSON ({error})") from error
    if not isinstance(content, dict) or content.get("form") != FORM:
        raise _not_a_plan(path, f"its form is not {FORM}")
    require_spelling(path, data, content)
    attached = content.pop(ATTACHED, None)
    if not isinstance(attached, dict):
        raise _not_a_plan(path, f"it has no '{ATTACHED}'")
    if unknown := sorted(name for name in attached if ATTACHMENTS.find(name) is None):
        raise _not_a_plan(path, f"no plug-in here reads its part '{ATTACHED}.{unknown[0]}'")
    try:
        plan = _plan_of(content)
        made = plan_document(plan, content["project"])
    except Exception as error:  # Any changed byte may fail anywhere in the decoding.
        raise _changed(path, content, [f"what is stored in it cannot be read ({error})"]) from error
    if plan.kind is PlanKind.RUN:
        raise _not_a_plan(path, "it is a run, which no file has: production computes its own")
    # As bytes: to Python 1, 1.0 and true are equal.
    if canonical(made) != canonical(content):
        raise _changed(path, content, list(_differences(content, made)))
    return PlanFile(plan, made, attached)


def open_plan(handles: Handles, path: Path) -> Plan:
    """Read a plan's file to apply it here, and keep what is attached to it.

    Raises:
        UsageError: As `read_plan`; or the file was made for another project or state; or the state
            has another plan of its id, or other definitions; or the plan does not do what it says;
            or an attached value is wrong.
    """
    found = read_plan(path)
    require_state(handles, found)
    if not is_applied(handles, found.plan):
        proven(handles, found.plan)
    for name, value in found.attached.items():
        part = ATTACHMENTS.find(name) if name in handles.settings.plugins else None
        if part is not None:
            part.take(handles, found.document, value)
    return found.plan


def attached_to(handles: Handles, plan_ids: Sequence[str]) -> dict[str, str]:
    """Return what is attached to plans, in words, by their ids."""
    told: dict[str, str] = {}
    for name in handles.settings.plugins:
        part = ATTACHMENTS.find(name)
        for plan_id, text in (part.told(handles, plan_ids) if part else {}).items():
            told[plan_id] = ", ".join(filter(None, (told.get(plan_id), text)))
    return told


def require_state(handles: Handles, found: PlanFile) -> None:
    """Make sure that a file's plan was made for the state that is here.

    Raises:
        UsageError: It was not; says what differs.
    """
    plan = found.plan
    record = handles.store.plans.record(plan.id)
    if record is not None and record.status == "rejected":
        raise UsageError(f"the plan {plan.id} was {record.message}", hint="plan again")
    differences = [] if found.document["project"] == project_of(handles) else [_OTHER_PROJECT]
    if record is not None:
        stored = plan_document(handles.store.plans.load(plan.id), project_of(handles))
        differences += [f"the stored plan {one}" for one in _differences(found.document, stored)]
    else:
        handles.store.snapshots.load(plan.snapshots)  # An id proves what the state has.
    if record is None or record.status != "applied":
        differences += [*_of_state(handles, plan), *_of_seeds(handles, plan)]
    if differences:
        told = "; ".join(differences[:MOST_DIFFERENCES])
        more = and_more(len(differences), MOST_DIFFERENCES)
        raise UsageError(
            f"plan {plan.id} was made for another state, and was not applied: {told}{more}",
            hint=f"plan again, here: vde plan {plan.environment} --save FILE",
        )


_OTHER_PROJECT = "it is of another project (by the setting id, or name)"


def _of_state(handles: Handles, plan: Plan) -> Iterator[str]:
    """Yield how the state differs from that which a plan was made for.

    Runs since then are no difference: they publish the same definitions, with more rows.
    """
    store, name = handles.store, plan.environment
    current = store.environments.get(name)
    if store.versions.current_base(name, plan.base_version) is None:
        at = f"at version {current.version}, by {current.published_by}" if current else "no more"
        yield f"'{name}' was at version {plan.base_version or 'none'} and is {at}"
    entries = current.entries if current else {}
    shows = {model: entry.snapshot_id for model, entry in entries.items()}
    meant = _shown(plan)
    for model in sorted(shows.keys() | meant.keys()):
        before, now = meant.get(model), shows.get(model)
        if before != now:
            was, is_ = (key[:12] if key else "nothing" for key in (before, now))
            yield f"'{name}' showed {was} as {model}, and shows {is_}"
    tables = {m.table.id: (m.name, m.table) for m in plan.models if m.table and m.table.created}
    known = store.tables.load(tables)
    for key, (model, table) in tables.items():
        there = known.get(key)
        if there is None or there.ref != table.ref or there.fill_version != table.fill_version:
            yield f"there is no table {table.ref} of {model}"
        elif lost := table.intervals - there.intervals:
            ranges = ", ".join(f"{iso(one.start)} … {iso(one.end)}" for one in lost)
            yield f"the table of {model} is not filled any more for {ranges}"


def _of_seeds(handles: Handles, plan: Plan) -> Iterator[str]:
    """Yield the seeds to be filled whose rows, which no plan has, are others in this clone."""
    for model in plan.computed:
        kind = plan.snapshot_of(model).model.kind
        if isinstance(kind, Seed):
            path = file_of_project(handles.root, kind.path)
            content = path.read_bytes() if path.is_file() else b""
            if hashlib.sha256(content).hexdigest() != kind.content_hash:
                yield f"{kind.path} of {model.name} is another file here (check out its commit)"


def _shown(plan: Plan) -> dict[ModelName, str]:
    """Return the definitions that a plan's environment shows so far, by model.

    The plan of a new environment is compared with production instead.
    """
    if not plan.base_version:
        return {}
    return {m.name: m.previous_snapshot_id for m in plan.models if m.previous_snapshot_id}


def _definition(snapshot: Snapshot, data: bytes) -> dict[str, Any]:
    return {
        "model": str(snapshot.name),
        "file": snapshot.model.location.path.as_posix(),
        "text": snapshot.model.source,
        "runs": _runs(snapshot),
        "hash": hashlib.sha256(data).hexdigest(),
        "stored": b64encode(data).decode(),
    }


def _runs(snapshot: Snapshot) -> list[str]:
    """Return the texts that are run of a definition, of which its file's text need not tell."""
    model = snapshot.model
    code = [] if model.python is None else [text for _, text in sorted(model.python.files.items())]
    query = [] if model.query is None else [model.query]
    return [*model.pre_statements, *query, *code, *model.post_statements, *model.on_virtual_update]


def _plan_of(content: Mapping[str, Any]) -> Plan:
    stored = from_bytes(StoredPlan, b64decode(content["stored"], validate=True))
    definitions = content["definitions"]
    snapshots = {}
    for key in stored.snapshot_ids:
        snapshot = from_content(key, b64decode(definitions[key]["stored"], validate=True))
        if snapshot is None:
            raise ValueError(f"the definition {key} has another id")
        snapshots[key] = snapshot
    return replace(stored.plan, snapshots=snapshots)


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield the places where two values of JSON differ, definitions by their models' names."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if key == "hash" and not path:
                continue
            where = f"{path}.{key}" if path else key
            if path == "definitions":
                named = one.get(key) or other.get(key)
                model = named.get("model") if isinstance(named, dict) else None
                if canonical(one.get(key)) != canonical(other.get(key)):
                    yield f"differs in the definition of {model or key}"
            elif key not in one or key not in other:
                yield f"differs in {where}"
            else:
                yield from _differences(one[key], other[key], where)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _differences(a, b, f"{path}[{number}]")
    elif canonical(one) != canonical(other):
        yield f"differs in {path}"


def _not_a_plan(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is not a plan: {why}", hint="`vde plan ENV --save FILE` writes one")


def _changed(path: Path, content: Mapping[str, Any], differences: Sequence[str]) -> UsageError:
    told = "; ".join(differences[:MOST_DIFFERENCES]) or "differs in hash"
    more = and_more(len(differences), MOST_DIFFERENCES)
    by = content.get("made_by")
    other = f" it was made by version {by}, and this is {_VERSION};" if by != _VERSION else ""
    return UsageError(
        f"{path} is not as it was written, and was not applied:{other} {told}{more}",
        hint="take the file as `vde plan ENV --save FILE` wrote it, or plan again",
    )
