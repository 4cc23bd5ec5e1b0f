"""From the commands of a workflow task to the record that is committed.

The worker decides here what starts in this process as soon as the workflow task is durable: activities in free slots,
children that it serves, and the next run of a continue-as-new.
"""

from __future__ import annotations

from outlast.runtime.runtime import Runtime
from outlast.worker.activities.dispatcher import ActivityDispatcher
from outlast.worker.runs.cached_run import CachedRun
from outlast.worker.runs.served_workflows import ServedWorkflows
from outlast_runs.workflow_task import OwnResult, WorkflowTask
from outlast_store.transitions.children import NewChild, new_child, waits_before_start
from outlast_workflow.history.events import (
    ActivityScheduled,
    ChildWorkflowScheduled,
    Event,
    WorkflowContinuedAsNew,
)
from outlast_workflow.options.activity import ActivityOptions, read_snapshot
from outlast_workflow.run.child_calls import NOTHING


class Decider:
    """Makes the workflow tasks of one worker ready to be committed.

    Args:
        runtime: Where new ids come from.
        served: What the worker serves.
        dispatcher: Where slots for activities are reserved.
    """

    def __init__(self, runtime: Runtime, served: ServedWorkflows, dispatcher: ActivityDispatcher) -> None:
        self._ids = runtime.environment.ids
        self._served = served
        self._settings = served.settings
        self._dispatcher = dispatcher

    def decide(
        self,
        cached_run: CachedRun,
        commands: list[Event],
        own: list[OwnResult],
        seen_seq: int,
        *,
        eager: bool = True,
    ) -> WorkflowTask:
        """Return the workflow task of a run whose code has just run.

        Args:
            cached_run: The run.
            commands: The commands of its code.
            own: The results that are committed with them.
            seen_seq: The last event that the code has seen.
            eager: Whether to reserve slots for activities that can start here; the caller then starts them or releases
                the slots.
        """
        settings = self._settings
        next_run_id = next_owner_id = None
        terminal = cached_run.machine.terminal
        if isinstance(terminal, WorkflowContinuedAsNew):
            next_run_id = self._ids.next()
            queue = terminal.task_queue or cached_run.run.task_queue
            # A run that waits before it starts is claimed when it is due.
            if not terminal.start_delay_seconds:
                next_owner_id = self._owner_of(terminal.workflow_type, queue)
        activities: dict[int, ActivityOptions] = {}
        children: dict[int, NewChild] = {}
        eager = eager and terminal is None
        for command in commands:
            if type(command) is ActivityScheduled:
                if eager and self._dispatcher.reserve_slot(command):
                    activities[command.command_id] = read_snapshot(command.options.json)
            elif type(command) is ChildWorkflowScheduled:
                children[command.command_id] = self._child(cached_run, command)
        return cached_run.decide(
            commands,
            own,
            seen_seq,
            worker_id=settings.worker_id,
            build_id=settings.build_id,
            eager=activities,
            next_run_id=next_run_id,
            next_owner_id=next_owner_id,
            children=children,
        )

    def _owner_of(self, workflow_type: str, task_queue: str) -> str | None:
        """Return the owner of a new run: this worker if it serves the run, else nobody."""
        return self._settings.worker_id if self._served.serves(workflow_type, task_queue) else None

    def _child(self, cached_run: CachedRun, command: ChildWorkflowScheduled) -> NewChild:
        """Return the child that starts with this workflow task."""
        owner_id = None
        # A child that waits before it begins is admitted or claimed when it is due.
        if command.options is NOTHING or not waits_before_start(command):
            owner_id = self._owner_of(command.workflow_type, command.task_queue)
        awaited = cached_run.machine.children.awaits_start(command.command_id)
        return new_child(command, self._ids.next(), owner_id, awaited=awaited)
