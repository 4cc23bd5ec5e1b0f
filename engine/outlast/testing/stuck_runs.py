"""Runs whose workflow task keeps failing: a test that waits for one fails, as nobody will fix the code meanwhile.

In production such a run waits for a deploy, and its task is tried again and again. In virtual time those tries cost
nothing, so a test would only see that time reaches its horizon.
"""

from __future__ import annotations

from collections.abc import Iterator

from outlast.runtime.runtime import Runtime
from outlast_store.journal.commit_news import Committed
from outlast_store.reads.runs import find_run
from outlast_store.schema.rows import RunRow
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.data.failures import exception_of
from outlast_workflow.errors import OutlastError
from outlast_workflow.history.events import WorkflowTaskFailed


class StuckWorkflowError(RuntimeError):
    """A workflow cannot continue: its workflow task, or that of a child, keeps failing. ``__cause__`` says why.

    Attributes:
        workflow_id: The workflow whose task fails.
        run_id: Its run.
        task_failures: How often the task has failed in a row.
    """

    def __init__(
        self, workflow_id: str, run_id: str, task_failures: int, cause: BaseException | None
    ) -> None:
        said = "" if cause is None else f": {cause.in_words if isinstance(cause, OutlastError) else cause!r}"
        super().__init__(
            f"workflow {workflow_id!r} cannot continue: its workflow task has failed {task_failures} times in a row"
            f"{said}. In production it is tried again until the code is fixed. Fix the cause; or, if the test fixes it "
            "while it waits, allow more with TestEnvironment(max_task_failures=…), where 0 is no limit"
        )
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.task_failures = task_failures
        self.__cause__ = cause


class StuckRuns:
    """Fails the waits for runs whose workflow task fails once more after too many times.

    A run that was stuck before somebody waited for it gets another try: its code may have been replaced.

    Args:
        runtime: Whose waits, and whose commits tell.
        converter: Decodes failures.
        max_task_failures: How many failures in a row are too many.
    """

    def __init__(self, runtime: Runtime, converter: DataConverter, max_task_failures: int) -> None:
        self._runtime = runtime
        self._converter = converter
        self._limit = max_task_failures
        self._counts: dict[str, int] = {}
        """The failures in a row of each open run that has any, as last committed."""
        self._causes: dict[str, WorkflowTaskFailed] = {}
        """The failure that began the streak of each of these runs."""
        runtime.journal.subscribe(self._on_commit)

    def stop(self) -> None:
        """Let waits go on from now."""
        self._runtime.journal.unsubscribe(self._on_commit)

    def _on_commit(self, committed: Committed) -> None:
        for run_id, run in committed.runs.items():
            count = run.task_failures if run.is_open else 0
            before = self._counts.get(run_id, count - 1 if count == 1 else count)
            if not count:
                if self._counts.pop(run_id, None) is not None:
                    self._causes.pop(run_id, None)
                continue
            self._counts[run_id] = count
            for _, event, _ in committed.events.get(run_id, ()):
                if isinstance(event, WorkflowTaskFailed):
                    self._causes[run_id] = event
            if before < count >= self._limit:
                self._fail(run)

    def _fail(self, run: RunRow) -> None:
        event = self._causes.get(run.run_id)
        cause = None if event is None else exception_of(event.failure, self._converter)
        error = StuckWorkflowError(run.workflow_id, run.run_id, run.task_failures, cause)
        for run_id in self._with_ancestors(run):
            self._runtime.run_ends.fail(run_id, error)
            self._runtime.request_waits.fail(run_id, error)

    def _with_ancestors(self, run: RunRow) -> Iterator[str]:
        """Yield the run and those that wait for it: its parent, the parent's parent, and so on."""
        found: RunRow | None = run
        while found is not None:
            yield found.run_id
            parent = found.parent_run_id
            found = None if parent is None else self._runtime.read_now(find_run, parent)
