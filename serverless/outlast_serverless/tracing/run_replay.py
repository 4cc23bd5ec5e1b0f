"""The replay of a run of a document: its history is fed to the interpreter that wrote it, with somebody looking on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from outlast_serverless.interpreter.request import TYPE_PREFIX
from outlast_serverless.interpreter.workflow import workflow_of
from outlast_serverless.jq import Evaluator
from outlast_serverless.tracing.observing import ObservedInterpreter, ObservedPace, Observer
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.declare.definitions import definition_for, definition_of
from outlast_workflow.errors import (
    ExpressionBudgetError,
    MissingCodeError,
    NonDeterminismError,
    UntraceableRunError,
)
from outlast_workflow.history.events import REGISTRY
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.run.machine import WorkflowMachine
from outlast_workflow.run.replay import Replay, Row


class RunReplay:
    """One run, as far as its history was read.

    Args:
        run_id: The run.
        workflow_type: Its type.
        converter: Decodes its payloads.
        evaluator: Evaluates expressions again.
        observer: Who looks on.

    Attributes:
        seq: How far its history was read.
        terminal: The number, type and payload of the event that ended it, once it was read.
    """

    def __init__(
        self,
        run_id: str,
        workflow_type: str,
        converter: DataConverter,
        evaluator: Evaluator,
        observer: Observer,
    ) -> None:
        self.seq = 0
        self.terminal: Row | None = None
        made = workflow_of(
            evaluator,
            {},
            interpreter=partial(ObservedInterpreter, observer),
            pace=partial(ObservedPace, observer),
        )
        definition = definition_for({f"{TYPE_PREFIX}*": definition_of(made)}, workflow_type)
        assert definition is not None, "only runs of documents are replayed"
        self._run_id = run_id
        self._machine = WorkflowMachine(
            definition, run_id, converter=converter, limits=StructuralLimits(), guarded=False
        )
        self._replay = Replay(self._machine)

    def feed(self, rows: Iterable[Row]) -> None:
        """Go on with the next events.

        Args:
            rows: What follows the events before, in order, without a gap.

        Raises:
            UntraceableRunError: The history cannot be replayed here.
            PayloadCodecError: Its payloads need another codec.
            DamagedHistoryError: An event cannot be read.
        """
        rows = list(rows)
        try:
            self._replay.feed(rows)
        except MissingCodeError as error:
            raise UntraceableRunError(
                self._run_id, f"{error.message}; trace it with the version that runs it"
            ) from error
        except NonDeterminismError as error:
            raise UntraceableRunError(
                self._run_id,
                "its history records other calls than its document makes: an interceptor of its worker makes some, or "
                "another version ran it; trace it with that version, or read its history (`outlast history`)",
            ) from error
        except ExpressionBudgetError as error:
            raise UntraceableRunError(
                self._run_id, "an expression took longer than its budget here; try again on a quieter machine"
            ) from error
        self.seq = self._replay.replayed.last_seq
        for row in rows:
            if REGISTRY[row[1]].terminal:
                self.terminal = row

    @property
    def now(self) -> int:
        """The time of the workflow task that was replayed last, in microseconds since the epoch."""
        return self._machine.time

    @property
    def task_seq(self) -> int:
        """The number of the record of that workflow task."""
        return self._replay.seq

    @property
    def settled(self) -> int:
        """Up to which event everything was told: not beyond a workflow task whose commands are not all read."""
        return self._replay.seq - 1 if self._replay.wanted else self.seq

    def close(self) -> None:
        """Let go of the run."""
        self._machine.evict()
