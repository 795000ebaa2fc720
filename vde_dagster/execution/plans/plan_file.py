"""Plans as files, created in one clone and applied in another clone with the same state.

A file has the plan, every definition as the state stores it (`state.db.codec`), readable texts, and
the state that the plan was created for. A reader regenerates all texts from the stored values, and
refuses a file with a text that differs. Plug-ins attach their own values, such as signatures.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vde_dagster.base.installing import __version__
from vde_dagster.base.json_values import canonical_json
from vde_dagster.base.names import ModelName
from vde_dagster.base.plugins import Seam
from vde_dagster.base.texts import and_more
from vde_dagster.errors import UsageError
from vde_dagster.execution.plans.plan_spelling import file_bytes, parse_json, require_canonical_form
from vde_dagster.execution.plans.proven_plan import proven
from vde_dagster.planning.intervals.interval import iso
from vde_dagster.planning.plan.plan import Plan, PlanKind
from vde_dagster.planning.snapshots.identity import content_bytes, from_content
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.kinds.seed import Seed
from vde_dagster.project.serialise import from_bytes, to_bytes
from vde_dagster.reports.plan_json import plan_json
from vde_dagster.state.db.codec import StoredPlan

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles

FORM = "vde-plan-1"
ATTACHED = "attached"
"""Key of the plug-ins' values, by plug-in name. The plan's hash does not cover these values."""
MOST_DIFFERENCES = 5
MAX_BYTES = 500_000_000


class Attachment(Protocol):
    """Plug-in that attaches values, such as signatures, to plans in files and in the state."""

    def take(self, handles: Handles, document: Mapping[str, Any], value: Any) -> None:
        """Check the value in a plan's file, and store it in the state.

        The file itself was verified before.

        Raises:
            UsageError: The attachment is invalid; nothing is stored.
        """

    def descriptions(self, handles: Handles, plan_ids: Sequence[str]) -> Mapping[str, str]:
        """Describe the stored values of plans for the history, by plan id."""


ATTACHMENTS: Seam[Attachment] = Seam("attachments")


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan read from a file: `document` without attachments, and attachments by plug-in name."""

    plan: Plan
    document: dict[str, Any]
    attached: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """Reads and writes plans as files, and checks files before they are applied."""

    handles: Handles

    @staticmethod
    def path(text: str) -> Path | None:
        """Return the path that a text names, or None if the text is a plan's id."""
        return Path(text) if "." in text or "/" in text or os.sep in text else None

    def document(self, plan: Plan) -> dict[str, Any]:
        # A plan in memory may have other hashes of definitions.
        return plan_document(plan, _project_identity(self.handles))

    def save(self, plan_id: str, path: Path) -> None:
        """Write a stored plan to a file.

        Raises UsageError if the plan does not exist, is a run, or cannot be written.
        """
        plan = self.handles.store.plans.load(plan_id)
        if plan.kind is PlanKind.RUN:
            raise UsageError(
                f"plan {plan_id} is a run, which cannot be saved to a file",
                hint=f"to compute due intervals, run: vde run {plan.environment}",
            )
        self.write(path, self.document(plan), {})

    @staticmethod
    def write(path: Path, document: Mapping[str, Any], attached: Mapping[str, Any]) -> None:
        """Write a plan's file atomically, with the same bytes for the same plan.

        Args:
            attached: Values of plug-ins, by their names.

        Raises:
            UsageError: The file cannot be written.
        """
        content = {**document, ATTACHED: attached}
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_bytes(file_bytes(content))
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise UsageError(f"cannot write {path}: {error.strerror}") from error

    @staticmethod
    def read(path: Path) -> PlanFile:
        """Read a plan's file, and check that it is complete and in canonical form.

        Raises:
            UsageError: The file cannot be read, is not a plan, is not in the form of `write`, or
                has a text that contradicts its values.
        """
        try:
            if path.stat().st_size > MAX_BYTES:
                raise UsageError(f"{path} is not a plan: it has more than {MAX_BYTES:,} bytes")
            data = path.read_bytes()
        except OSError as error:
            hint = "to write a plan file, run: vde plan ENV --save FILE"
            raise UsageError(f"cannot read {path}: {error.strerror}", hint=hint) from error
        try:
            content = parse_json(data)
        except (ValueError, RecursionError) as error:
            raise _not_a_plan_error(path, f"it is not valid JSON ({error})") from error
        if not isinstance(content, dict) or content.get("form") != FORM:
            raise _not_a_plan_error(path, f"its format is not {FORM}")
        require_canonical_form(path, data, content)
        attached = content.pop(ATTACHED, None)
        if not isinstance(attached, dict):
            raise _not_a_plan_error(path, f"it has no '{ATTACHED}'")
        if unknown := sorted(name for name in attached if ATTACHMENTS.find(name) is None):
            raise _not_a_plan_error(
                path, f"no installed plug-in reads its part '{ATTACHED}.{unknown[0]}'"
            )
        try:
            plan = _decode_plan(content)
            made = plan_document(plan, content["project"])
        except Exception as error:  # A changed byte can cause any error while decoding.
            raise _changed_file_error(
                path, content, [f"its stored values cannot be read ({error})"]
            ) from error
        if plan.kind is PlanKind.RUN:
            raise _not_a_plan_error(path, "it is a run, which cannot be in a file")
        # Compare bytes, because 1, 1.0 and true are equal in Python.
        if canonical_json(made) != canonical_json(content):
            raise _changed_file_error(path, content, list(_differences(content, made)))
        return PlanFile(plan, made, attached)

    def open(self, path: Path) -> Plan:
        """Read and verify a plan's file, store its attachments, and return the plan for an apply.

        Raises:
            UsageError: The file is invalid, see `read`; the file is for another project; the
                environment's version, definitions or tables, or the file of a seed, differ from
                the plan; the plan was rejected; the state stores a different plan under
                the same id; the plan's fields contradict its definitions or tables; or an
                attachment is invalid.
        """
        found = self.read(path)
        _require_state(self.handles, found)
        if not self.handles.store.plans.is_applied(found.plan.id):
            proven(self.handles, found.plan)
        for name, value in found.attached.items():
            part = ATTACHMENTS.find(name) if name in self.handles.settings.plugins else None
            if part is not None:
                part.take(self.handles, found.document, value)
        return found.plan

    def attached_to(self, plan_ids: Sequence[str]) -> dict[str, str]:
        """Describe the attachments of plans, such as signatures, by plan id."""
        descriptions: dict[str, str] = {}
        for name in self.handles.settings.plugins:
            part = ATTACHMENTS.find(name)
            found = part.descriptions(self.handles, plan_ids) if part else {}
            for plan_id, text in found.items():
                descriptions[plan_id] = ", ".join(filter(None, (descriptions.get(plan_id), text)))
        return descriptions


def plan_document(plan: Plan, project: Mapping[str, str]) -> dict[str, Any]:
    """Convert a plan, its definitions, and the project's `id` or `name` to JSON values."""
    stored = to_bytes(StoredPlan(replace(plan, snapshots={}), tuple(plan.snapshots)))
    definitions = {
        key: _definition_json(snapshot, content_bytes(snapshot))
        for key, snapshot in plan.snapshots.items()
    }
    shown = {str(model): key for model, key in _current_definitions(plan).items()}
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
        "made_by": __version__,
        "project": dict(project),
        "plan": plan_json(plan),
        "definitions": definitions,
        "state": {"version": plan.base_version, "shows": shown, "tables": tables},
        "stored": b64encode(stored).decode(),
    }
    plain: dict[str, Any] = json.loads(canonical_json(document))
    return {**plain, "hash": hashlib.sha256(canonical_json(plain)).hexdigest()}


def _project_identity(handles: Handles) -> dict[str, str]:
    own = handles.settings.identity
    return {"id": own.id} if own.id else {"name": own.name if own.named else ""}


def _require_state(handles: Handles, found: PlanFile) -> None:
    plan = found.plan
    record = handles.store.plans.record(plan.id)
    if record is not None and record.status == "rejected":
        raise UsageError(
            f"plan {plan.id} was {record.message}", hint=f"plan again: vde plan {plan.environment}"
        )
    differences = (
        [] if found.document["project"] == _project_identity(handles) else [_OTHER_PROJECT]
    )
    if record is not None:
        stored = plan_document(handles.store.plans.load(plan.id), _project_identity(handles))
        differences += [f"the stored plan {one}" for one in _differences(found.document, stored)]
    else:
        handles.store.snapshots.load(plan.snapshots)  # The ids prove the state's content.
    if record is None or record.status != "applied":
        differences += [*_state_differences(handles, plan), *_seed_differences(handles, plan)]
    if differences:
        descriptions = "; ".join(differences[:MOST_DIFFERENCES])
        more = and_more(len(differences), MOST_DIFFERENCES)
        raise UsageError(
            f"plan {plan.id} was not applied, because it was created for another state: "
            f"{descriptions}{more}",
            hint=f"plan again here: vde plan {plan.environment} --save FILE",
        )


_OTHER_PROJECT = "it belongs to another project (by the setting id, or name)"


def _state_differences(handles: Handles, plan: Plan) -> Iterator[str]:
    # Later runs do not count, because they publish the same definitions, with more rows.
    store, name = handles.store, plan.environment
    current = store.environments.get(name)
    if store.versions.current_base(name, plan.base_version) is None:
        at = f"at version {current.version}, by {current.published_by}" if current else "dropped"
        yield f"'{name}' was at version {plan.base_version or 'none'} and is {at}"
    entries = current.entries if current else {}
    shows = {model: entry.snapshot_id for model, entry in entries.items()}
    meant = _current_definitions(plan)
    for model in sorted(shows.keys() | meant.keys()):
        before, now = meant.get(model), shows.get(model)
        if before != now:
            was, is_ = (key[:12] if key else "nothing" for key in (before, now))
            yield f"'{name}' had {was} as the definition of {model}, and now has {is_}"
    tables = {m.table.id: (m.name, m.table) for m in plan.models if m.table and m.table.created}
    known = store.tables.load(tables)
    for key, (model, table) in tables.items():
        there = known.get(key)
        if there is None or there.ref != table.ref or there.fill_version != table.fill_version:
            yield f"the table {table.ref} of {model} does not exist"
        elif lost := table.intervals - there.intervals:
            ranges = ", ".join(f"{iso(one.start)} … {iso(one.end)}" for one in lost)
            yield f"the table of {model} is no longer filled for {ranges}"


def _seed_differences(handles: Handles, plan: Plan) -> Iterator[str]:
    # Plans do not contain rows of seeds.
    for model in plan.computed:
        kind = plan.snapshot_of(model).model.kind
        if isinstance(kind, Seed):
            path = handles.path(kind.path)
            content = path.read_bytes() if path.is_file() else b""
            if hashlib.sha256(content).hexdigest() != kind.content_hash:
                yield f"{kind.path} of {model.name} differs here (check out the plan's commit)"


def _current_definitions(plan: Plan) -> dict[ModelName, str]:
    # The plan of a new environment is compared with production.
    if not plan.base_version:
        return {}
    return {m.name: m.previous_snapshot_id for m in plan.models if m.previous_snapshot_id}


def _definition_json(snapshot: Snapshot, data: bytes) -> dict[str, Any]:
    return {
        "model": str(snapshot.name),
        "file": snapshot.model.location.path.as_posix(),
        "text": snapshot.model.source,
        "runs": _executed_texts(snapshot),
        "hash": hashlib.sha256(data).hexdigest(),
        "stored": b64encode(data).decode(),
    }


def _executed_texts(snapshot: Snapshot) -> list[str]:
    # The file of the model may not contain all of them.
    model = snapshot.model
    code = [] if model.python is None else [text for _, text in sorted(model.python.files.items())]
    query = [] if model.query is None else [model.query]
    return [*model.pre_statements, *query, *code, *model.post_statements, *model.on_virtual_update]


def _decode_plan(content: Mapping[str, Any]) -> Plan:
    stored = from_bytes(StoredPlan, b64decode(content["stored"], validate=True))
    definitions = content["definitions"]
    snapshots = {}
    for key in stored.snapshot_ids:
        snapshot = from_content(key, b64decode(definitions[key]["stored"], validate=True))
        if snapshot is None:
            raise ValueError(f"the content of a definition does not match its id {key}")
        snapshots[key] = snapshot
    return replace(stored.plan, snapshots=snapshots)


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    # The text for a definition contains the model's name instead of the path.
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if key == "hash" and not path:
                continue
            where = f"{path}.{key}" if path else key
            if path == "definitions":
                named = one.get(key) or other.get(key)
                model = named.get("model") if isinstance(named, dict) else None
                if canonical_json(one.get(key)) != canonical_json(other.get(key)):
                    yield f"differs in the definition of {model or key}"
            elif key not in one or key not in other:
                yield f"differs in {where}"
            else:
                yield from _differences(one[key], other[key], where)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _differences(a, b, f"{path}[{number}]")
    elif canonical_json(one) != canonical_json(other):
        yield f"differs in {path}"


def _not_a_plan_error(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is not a plan: {why}", hint="to write a plan file, run: vde plan ENV --save FILE"
    )


def _changed_file_error(
    path: Path, content: Mapping[str, Any], differences: Sequence[str]
) -> UsageError:
    descriptions = "; ".join(differences[:MOST_DIFFERENCES]) or "differs in hash"
    more = and_more(len(differences), MOST_DIFFERENCES)
    by = content.get("made_by")
    other = ""
    if by != __version__:
        other = f" it was created by version {by}, but this is {__version__};"
    return UsageError(
        f"{path} was not applied, because it was changed after it was written:{other} "
        f"{descriptions}{more}",
        hint="use the file as `vde plan ENV --save FILE` wrote it, or plan again: vde plan ENV",
    )
