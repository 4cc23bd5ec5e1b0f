"""The workflows that a worker serves: their types, their task queues and their code."""

from __future__ import annotations

from collections.abc import Mapping

from outlast.worker.settings import WorkerSettings
from outlast_store.schema.rows import RunRow
from outlast_workflow.declare.definitions import WorkflowDefinition, definition_for
from outlast_workflow.errors import MissingCodeError
from outlast_workflow.options.alerts import DELIVERY
from outlast_workflow.options.failure_types import verdict
from outlast_workflow.run.machine import WorkflowMachine


class ServedWorkflows:
    """What one worker runs, until it stops.

    Args:
        settings: The worker's settings.
        workflows: The definitions, by type or family of types.
        local_activities: The activity types that the worker runs as local activities.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        workflows: Mapping[str, WorkflowDefinition],
        local_activities: frozenset[str],
    ) -> None:
        self.settings = settings
        self.workflows = workflows
        self.types = frozenset(workflows)
        self.queues = frozenset(settings.task_queues)
        self.stopping = False
        """Whether the worker has stopped to run workflow tasks and to load runs."""
        self._local_activities = local_activities

    def serves(self, workflow_type: str, task_queue: str) -> bool:
        """Return whether the worker now accepts runs of a type on a task queue."""
        known = workflow_type in self.workflows or self.find(workflow_type) is not None
        return known and not self.stopping and task_queue in self.queues

    def find(self, workflow_type: str) -> WorkflowDefinition | None:
        """Return the definition that runs a type, or ``None`` if the worker does not have it."""
        return definition_for(self.workflows, workflow_type)

    def fails_run(self, workflow_type: str, error: BaseException) -> bool:
        """Return whether an exception that failed a workflow task fails the run.

        Args:
            workflow_type: The run's type, which this worker has.
            error: The exception.
        """
        definition = self.find(workflow_type)
        assert definition is not None
        return verdict(error, definition.failure_types, self.settings.failure_types) is True

    def machine(self, run: RunRow) -> WorkflowMachine:
        """Make the machine of a run, before any workflow task.

        Raises:
            MissingCodeError: The worker does not have the run's type.
        """
        settings = self.settings
        definition = self.workflows.get(run.workflow_type) or self.find(run.workflow_type)
        if definition is None:
            raise MissingCodeError(f"workflow {run.workflow_type!r} is not registered with this worker")
        return WorkflowMachine(
            definition,
            run.run_id,
            converter=settings.converter,
            limits=settings.limits,
            # Deliveries have the options of the engine.
            default_activity_options=None
            if run.workflow_type == DELIVERY
            else settings.default_activity_options,
            local_activities=self._local_activities,
            failure_types=settings.failure_types,
            guarded=settings.runtime_guard,
        )
