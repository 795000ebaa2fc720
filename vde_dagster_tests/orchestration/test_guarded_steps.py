"""What a step yields, returns and raises is stored by Dagster without the secrets of settings."""

# Dagster reads the annotations of decorated functions, so they are not postponed here.

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from vde_dagster.base.secrets import MASK, remember_secret
from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.orchestration.definitions import vde_definitions
from vde_dagster.orchestration.events.steps import guarded_step
from vde_dagster_tests.projects import SHOP, ProjectFolder

SECRET = "step-secret-1"
URL = "postgresql://u:pw12345@h/d?password=query123"
TEXT = f"see {SECRET} at {URL}"
SECRETS = (SECRET, "pw12345", "query123")
KEY = dg.AssetKey(["a"])


def facts() -> dict[str, Any]:
    """Return metadata of every kind that has a text."""
    value = dg.MetadataValue
    column = dg.TableColumn("a", "string", description=TEXT)
    schema = dg.TableSchema([column])
    code = dg.LocalFileCodeReference(file_path=TEXT, line_number=1, label=TEXT)
    return {
        "plain": TEXT,
        "list": [TEXT],
        "text": value.text(TEXT),
        "markdown": value.md(TEXT),
        "url": value.url(TEXT),
        "path": value.path(TEXT),
        "notebook": value.notebook(TEXT),
        "json": value.json({"a": [TEXT, {"b": TEXT}]}),
        "table": value.table([dg.TableRecord({"a": TEXT})], schema=schema),
        "schema": value.table_schema(schema),
        "code": dg.CodeReferencesMetadataValue(code_references=[code]),
        "number": 7,
    }


def events_of(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance) -> str:
    """Return all that Dagster stored of a run, as its storage has it."""
    return "\n".join(str(one.to_json()) for one in instance.all_logs(result.run_id))


def run(step: Callable[..., Any]) -> str:
    """Run a job of one step, and return what Dagster stored."""

    @dg.op(name="step", out=dg.Out(is_required=False))
    @guarded_step
    def step_op(context: dg.OpExecutionContext) -> Iterator[Any]:
        yield from step()

    graph = dg.GraphDefinition("job", node_defs=[step_op])
    with dg.DagsterInstance.ephemeral() as instance:
        result = graph.to_job().execute_in_process(instance=instance, raise_on_error=False)
        return events_of(result, instance)


def test_no_event_of_a_step_has_a_secret() -> None:
    remember_secret(SECRET)

    def step() -> Iterator[Any]:
        yield dg.AssetMaterialization(KEY, description=TEXT, metadata=facts())
        yield dg.AssetObservation(KEY, description=TEXT, metadata=facts())
        yield dg.AssetCheckEvaluation(
            asset_key=KEY, check_name="c", passed=True, description=TEXT, metadata=facts()
        )
        yield dg.ExpectationResult(True, description=TEXT, metadata=facts())
        yield dg.Output(None, metadata=facts())

    stored = run(step)
    assert stored.count("STEP_SUCCESS") == 1, stored
    assert stored.count('"number"') == 5, "every event is there"
    assert MASK in stored
    assert not [one for one in SECRETS if one in stored]


def test_no_result_of_an_asset_and_its_checks_has_a_secret() -> None:
    remember_secret(SECRET)

    @dg.asset(name="a", check_specs=[dg.AssetCheckSpec("c", asset="a")])
    @guarded_step
    def checked() -> Iterator[Any]:
        check = dg.AssetCheckResult(passed=True, description=TEXT, metadata=facts())
        yield dg.MaterializeResult(metadata=facts(), check_results=[check])

    @dg.asset(name="b")
    @guarded_step
    def returned() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(metadata=facts())

    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize([checked, returned], instance=instance)
        stored = events_of(result, instance)
    assert stored.count('"number"') == 2 + 2 + 1, "outputs, their events, and the check"
    assert not [one for one in SECRETS if one in stored]


def _raise_plain() -> None:
    raise ValueError(TEXT)


def _raise_in_a_cause() -> None:
    try:
        raise OSError(TEXT)
    except OSError as error:
        raise ExecutionError("it failed") from error


def _raise_in_a_context() -> None:
    try:
        raise OSError(TEXT)
    except OSError:
        raise KeyError("it failed")  # noqa: B904


def _raise_failure() -> None:
    raise dg.Failure(TEXT, metadata=facts(), allow_retries=False)


def _raise_failure_with_facts() -> None:
    raise dg.Failure("it failed", metadata=facts())


def _raise_ours() -> None:
    raise ConflictError(TEXT, hint=TEXT)


RAISING = [
    _raise_plain,
    _raise_in_a_cause,
    _raise_in_a_context,
    _raise_failure,
    _raise_failure_with_facts,
    _raise_ours,
]


@pytest.mark.parametrize("step", RAISING, ids=lambda step: step.__name__)
def test_no_error_of_a_step_has_a_secret(step: Callable[[], None]) -> None:
    remember_secret(SECRET)

    def steps() -> Iterator[Any]:
        step()
        yield dg.Output(None)

    stored = run(steps)
    assert "STEP_FAILURE" in stored
    assert MASK in stored
    assert not [one for one in SECRETS if one in stored]


def test_an_error_without_secrets_is_the_same_one() -> None:
    def step() -> None:
        raise error

    error: Exception = ValueError("nothing of interest")
    with pytest.raises(ValueError, match="nothing of interest") as raised:
        guarded_step(step)()
    assert raised.value is error
    error = dg.RetryRequested(seconds_to_wait=1)
    with pytest.raises(dg.RetryRequested):
        guarded_step(step)()


def test_every_step_of_a_project_and_its_plugins_is_guarded(tmp_path: Path) -> None:
    sync = {"http": "{prod: {url: 'http://127.0.0.1:1/'}}"}
    folder = ProjectFolder(
        tmp_path,
        {
            **SHOP,
            "syncs.yaml": f"- {{name: top, source: marts.top, sink: http, mode: append, "
            f"to: {sync['http']}}}",
        },
    )
    definitions = vde_definitions(folder.root)
    repository = definitions.get_repository_def()
    steps: dict[str, Any] = {}
    for job in repository.get_all_jobs():
        for node in job.all_node_defs:
            if isinstance(node, dg.OpDefinition):
                steps[node.name] = node.compute_fn
    assert {"vde__apply", "vde__cost", "sync__top", "plan_and_apply", "janitor"} <= set(steps)
    bare = [name for name, one in steps.items() if not _is_guarded(one)]
    assert not bare


def _is_guarded(compute: Any) -> bool:
    function = getattr(compute, "decorated_fn", compute)
    return str(getattr(function, "__code__", None)).count("steps.py") == 1
