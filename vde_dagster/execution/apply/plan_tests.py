"""Unit tests of a plan's models, run before tables are filled. Passed tests are remembered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster import errors
from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.execution.events import UnitTestFinished
from vde_dagster.execution.memo import FileMemo
from vde_dagster.execution.unit_testing.run_test import TestResult, run_test
from vde_dagster.planning.plan.plan import Plan, PlanKind
from vde_dagster.planning.plan.stages import tested_models
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import read_with_test_variables
from vde_dagster.project.model import Model, UnitTest
from vde_dagster.project.settings import Settings

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.spark.engine import SparkEngine


@dataclass(frozen=True, slots=True)
class PlanTests:
    """The unit tests in a project's files. They run when a plan of these files is applied."""

    tests: Sequence[UnitTest]
    models: Mapping[ModelName, Model]
    passed: PassedTests
    root: Path

    @classmethod
    def load(cls, handles: Handles, plan: Plan) -> PlanTests | None:
        # Errors elsewhere in the files do not block a stored plan. A run needs no tests, because
        # its definitions were tested when they were planned.
        if plan.kind is not PlanKind.PLAN:
            return None
        project, passed = handles.readable_project, PassedTests.load(handles.settings)
        if not project.tests:
            return None
        return cls(project.tests, project.models, passed, handles.root)

    def select(self, plan: Plan) -> list[UnitTest]:
        """Return the tests of the models that a plan builds or changes."""
        # Tests of models whose files have changed since the plan was created are left out.
        target = plan.target
        changed = {name: target[name].model for name in tested_models(plan)}
        return [
            test
            for test in self.tests
            if test.model in changed
            and test.model in self.models
            and _tested_code(self.models[test.model]) == _tested_code(changed[test.model])
        ]

    def needs_spark(self, plan: Plan) -> bool:
        """Return whether a unit test must run: it has not yet passed with the same inputs."""
        snapshots = plan.target
        try:
            found = (
                read_with_test_variables(one, self.root, self.models) for one in self.select(plan)
            )
            return any(not self.passed.has(test, snapshots) for test in found)
        except errors.ProjectError:
            return False  # The run reports it as the failure of that test.

    def run(
        self,
        plan: Plan,
        engine: Callable[[], SparkEngine],
        on_event: Callable[[UnitTestFinished], None],
        stop: threading.Event,
    ) -> None:
        """Run a plan's unit tests, except tests that passed before with the same inputs.

        Raises:
            UnitTestFailedError: Some tests failed; all tests were run.
            ExecutionError: The apply was canceled.
        """
        snapshots = plan.target
        failed: list[TestResult] = []
        for test in self.select(plan):
            if stop.is_set():
                raise canceled_error(plan)
            try:
                test = read_with_test_variables(test, self.root, self.models)
            except errors.ProjectError as error:
                remembered, result = False, TestResult(test, error=str(error))
            else:
                remembered = self.passed.has(test, snapshots)
                result = TestResult(test) if remembered else _run_test(test, snapshots, engine())
            if not result.passed:
                failed.append(result)
            elif not remembered:
                self.passed.add(test, snapshots)
            on_event(UnitTestFinished(snapshots[test.model], result, remembered))
        self.passed.save(keep=True)
        if failed:
            raise errors.UnitTestFailedError(
                f"plan {plan.id} was not published because unit tests failed: "
                + "; ".join(f"{r.test.name} of {r.test.model}: {r.summary}" for r in failed),
                hint="run `vde test` to see the rows; then fix the model or the test, and run: "
                f"vde apply {plan.environment}",
            )


def canceled_error(plan: Plan) -> errors.ExecutionError:
    return errors.ExecutionError(
        f"the apply of plan {plan.id} was canceled",
        hint=f"to continue from here: vde apply {plan.environment} --plan {plan.id}",
    )


def _run_test(
    test: UnitTest, snapshots: Mapping[ModelName, Snapshot], engine: SparkEngine
) -> TestResult:
    # An error counts as a failure, and the other tests still run.
    try:
        return run_test(test, snapshots, engine)
    except errors.StoreError:
        raise  # Spark is unavailable, which is no result of the test.
    except errors.VdeError as error:
        return TestResult(test, error=str(error))


def _tested_code(model: Model) -> tuple[object, ...]:
    return model.query, model.python, model.columns, model.session, model.pre_statements


_NOWHERE = errors.SourceLocation(Path())


class PassedTests(FileMemo[str]):
    """Remembers passed unit tests in a file, with a hash of each test's model and inputs."""

    @classmethod
    def load(cls, settings: Settings) -> PassedTests:
        return cls(settings.work_dir / "cache" / "unit_tests", str)

    def has(self, test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> bool:
        """Check whether a unit test passed on the same model with inputs of the same types."""
        name = _memo_key(test)
        return self.used.get(name, self.stored.get(name)) == _hash_inputs(test, snapshots)

    def add(self, test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> None:
        """Store that a unit test passed. Call `save` to write the file."""
        self.used[_memo_key(test)] = _hash_inputs(test, snapshots)
        self.changed = True


def _memo_key(test: UnitTest) -> str:
    return f"{test.model} {test.name} {test.location.path.as_posix()}"


def _hash_inputs(test: UnitTest, snapshots: Mapping[ModelName, Snapshot]) -> str:
    model = snapshots[test.model].model
    code = model.python
    python = None if code is None else (code.entrypoint, sorted(code.files.items()))
    outside = () if code is None else sorted(code.outside.items())
    types = [
        (str(name), [(column.name, column.type) for column in snapshots[name].columns])
        for name in (test.model, *(name for name, _ in test.inputs))
        if name in snapshots
    ]
    return digest(
        "unit test",
        version("pyspark"),
        repr(replace(test, location=_NOWHERE)),
        model.query,
        repr((python, outside, model.session, types)),
    )
