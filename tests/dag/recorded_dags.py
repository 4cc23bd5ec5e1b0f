"""Whether the history of a DAG's run is one that the naive oracle could have: what began, with what, and how it ended.

The interpreter replays the history, and what it tells the core on the way is told to the oracle, too. So the order in
which things ended need not be guessed. That each of them is what the history has is compared by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from tests.dag.random_dags import Oracle, oracle_of

from outlast_dag.description.fold import DagFold
from outlast_dag.run.actions import Cancelled, Completed, Failed, Outcome
from outlast_dag.run.progress import Progress
from outlast_dag.spec.dag import ANY_DAG
from outlast_dag.spec.nodes import Approval, Plan, Sleep, WaitFor
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import NonDeterminismError

Row = tuple[int, str, Any]
"""An event: its number, its type and its payload."""
Told = tuple[Any, ...]

CONVERTER = DataConverter()
_WAITS = (Sleep, WaitFor, Approval)
_ENDED_AS = {
    "completed": {"WorkflowCompleted"},
    "failed": {"WorkflowFailed"},
    "timed_out": {"WorkflowFailed"},
    "cancelled": {"WorkflowCancelled"},
}
"""The last event of a run that its DAG has ended, by the oracle's verdict."""


class _Followed(DagFold):
    """A fold that notes what the core is told."""

    def __init__(self, run_id: str, workflow_type: str) -> None:
        super().__init__(run_id, workflow_type, CONVERTER)
        self.told: list[tuple[int, Told]] = []
        """What the core was told, each with how many events there were by then."""
        self.events = 0

    def _watch(self, progress: Progress) -> None:
        super()._watch(progress)
        watched: Any = progress
        for name in ("begin", "offer", "elapsed", "cancel", "expire"):
            setattr(watched, name, self._noted(name, getattr(progress, name)))

    def _noted(self, name: str, right: Any) -> Any:
        def noted(*given: Any, **named: Any) -> Any:
            self.told.append((self.events, (name, *given, *named.values())))
            return right(*given, **named)

        return noted


def judge_history(run_id: str, workflow_type: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is wrong with the history of a run that has ended.

    Args:
        run_id: The run.
        workflow_type: Its type.
        rows: Its history.
    """
    fold = _Followed(run_id, workflow_type)
    try:
        for row in rows:
            fold.events += 1
            fold.feed([row])
    except NonDeterminismError as error:
        yield f"run {run_id} of {workflow_type} does not replay: {error}"
        return
    try:
        if fold.spec is not None and fold.progress is not None:
            history = _History(rows, of_document=workflow_type == ANY_DAG)
            oracle = oracle_of(fold.spec, history.arguments)
            for what in _compared(oracle, fold.progress, fold.told, history):
                yield f"run {run_id} of {workflow_type}: {what}"
    finally:
        fold.close()


class _History:
    """What a history says of calls and waits, by their labels."""

    def __init__(self, rows: Sequence[Row], *, of_document: bool) -> None:
        self.events = [(kind, orjson.loads(payload)) for _, kind, payload in rows]
        self.arguments: list[Any] = self.events[0][1]["input"][int(of_document) :]
        self.scheduled: dict[int, tuple[str, list[Any]]] = {}
        self.ends: dict[str, tuple[str, dict[str, Any]]] = {}
        self.fired: Counter[str] = Counter()
        self.decided: dict[str, dict[str, Any]] = {}
        self.signals: list[tuple[str, Any]] = []
        timers: dict[int, str] = {}
        self.scheduled_at: dict[str, int] = {}
        self.ended_at: dict[str, int] = {}
        """The events by which calls began and ended, by their labels."""
        for place, (kind, event) in enumerate(self.events, 1):
            command_id = event.get("command_id", 0)
            if kind in ("ActivityScheduled", "ChildWorkflowScheduled"):
                self.scheduled[command_id] = event["summary"], event["input"]
                self.scheduled_at[event["summary"]] = place
            elif kind == "TimerScheduled":
                timers[command_id] = event.get("summary", "")
            elif kind == "TimerFired":
                self.fired[timers[command_id]] += 1
            elif kind == "SignalReceived":
                self.signals.append((event["name"], *event["input"]))
            elif kind == "UpdateAccepted":
                named: dict[str, Any] = dict(
                    zip(("node", "decision", "comment", "by"), event["input"], strict=False)
                )
                self.decided.setdefault(named["node"], named)
            elif command_id in self.scheduled and kind in _ENDS:
                label = self.scheduled[command_id][0]
                self.ends[label], self.ended_at[label] = (kind, event), place

    @property
    def last(self) -> tuple[str, dict[str, Any]]:
        return self.events[-1]

    @property
    def ended_by_code(self) -> bool:
        """Whether the DAG has ended the run, and not somebody else, or a limit."""
        kind, event = self.last
        internal = (event.get("failure") or {}).get("category") == "internal"
        return kind in ("WorkflowCompleted", "WorkflowFailed", "WorkflowCancelled") and not internal


_ENDS = {
    f"{what}{how}"
    for what in ("Activity", "ChildWorkflow")
    for how in ("Completed", "Failed", "TimedOut", "Cancelled", "Terminated", "StartFailed")
}


def _compared(
    oracle: Oracle, progress: Progress, told: Sequence[tuple[int, Told]], history: _History
) -> Iterator[str]:
    for events, (what, *given) in told:
        if what == "begin":
            if any(given):
                oracle.expired = oracle.halted = oracle.timed_out = True
            oracle.settle()
        elif what == "cancel":
            oracle.cancel()
        elif what == "expire":
            oracle.expire()
        elif what == "elapsed":
            if tuple(given) not in oracle.timers():
                yield f"the timer {given} fired, and nobody waits for it"
                return
            history.fired[given[0]] -= 1
            oracle.elapse(*given)
        else:
            name, index, outcome = given
            key = name, index
            if oracle.asked.get(key) != "running":
                yield f"{_label(name, index)} ended, and is {oracle.asked.get(key)}"
                return
            yield from _check_outcome(oracle, name, index, outcome, history, events)
            if isinstance(outcome, Cancelled) and key not in oracle.stopped:
                outcome = Failed("CancelledError", "")
            oracle.take(key, outcome)
    yield from _check_calls(oracle, history)
    if any(count < 0 for count in history.fired.values()):
        yield f"timers were told of that have not fired: {history.fired}"
    if oracle.verdict is None or "running" in oracle.state.values():
        if history.ended_by_code:
            yield f"it has ended with {history.last[0]}, and these go on: {oracle.state}"
        return
    yield from _check_end(oracle, progress, history)


def _check_end(oracle: Oracle, progress: Progress, history: _History) -> Iterator[str]:
    ends = {
        name: "skipped" if how == "waiting" and name in oracle.owners else how
        for name, how in oracle.state.items()
    }
    if dict(progress.states) != ends:
        differ = {
            name: (progress.states[name], how) for name, how in ends.items() if progress.states[name] != how
        }
        yield f"the states of its nodes are not what the oracle says: {differ}"
    assert oracle.verdict is not None
    status, result = oracle.verdict
    kind, event = history.last
    if not history.ended_by_code:
        return
    if kind not in _ENDED_AS[status]:
        yield f"it ended with {kind}, and the oracle says {status}"
    elif status == "completed" and without_words(event["result"]) != without_words(result):
        yield f"it returned {event['result']}, and the oracle says {result}"


def _check_calls(oracle: Oracle, history: _History) -> Iterator[str]:
    """What was called is what the oracle calls, in its order, with the same arguments, and never more at once."""
    begun = iter(key for key in oracle.begun if not oracle._is_wait(key[0]))
    planned: set[str] = set()
    for label, given in history.scheduled.values():
        if label in planned:
            # The run of what was planned has the label of its planner.
            continue
        for key in begun:
            if _label(*key) == label:
                if isinstance(oracle.nodes[key[0]], Plan):
                    planned.add(label)
                break
            if key not in oracle.stopped:
                yield f"{_label(*key)} was not called before {label}"
        else:
            yield f"{label} was called, and the oracle does not call it here"
            return
        args = oracle.calls[key[0]][key[1] or 0]
        if without_words(list(args or ())) != without_words(given):
            yield f"{label} was given {given}, and the oracle says {args}"


def _check_outcome(
    oracle: Oracle, name: str, index: int | None, outcome: Outcome, history: _History, events: int
) -> Iterator[str]:
    """What the core was told is what the history says."""
    label, node = _label(name, index), oracle.nodes[name]
    late = isinstance(outcome, Failed) and outcome.timed_out
    if isinstance(outcome, Cancelled):
        if label in history.scheduled_at and not (history.ended_at.get(label, events + 1) <= events):
            yield f"{label} was taken for cancelled, and has not ended"
        return
    if isinstance(node, _WAITS):
        if isinstance(node, Sleep) or late:
            history.fired[name] -= 1
        elif isinstance(node, Approval):
            said = history.decided.get(name)
            approved = said is not None and said.get("decision", "approve") == "approve"
            if said is None or not isinstance(outcome, Completed) or outcome.value["approved"] != approved:
                yield f"{name} was decided: {outcome}, and what was said is {said}"
        else:
            assert isinstance(node, WaitFor)
            assert isinstance(outcome, Completed)
            signal = node.event, outcome.value
            if signal not in history.signals:
                yield f"{name} was told {outcome.value}, which nobody has sent, or another wait had"
            elif not oracle.accepts(name, outcome.value):
                yield f"{name} was told {outcome.value}, which does not fit"
            else:
                history.signals.remove(signal)
        return
    kind, event = history.ends.get(label, ("nothing", {}))
    if history.ended_at.get(label, 0) > events:
        yield f"{label} ended: {outcome}, which the history has later"
    how = kind.removeprefix("Activity").removeprefix("ChildWorkflow")
    if isinstance(node, Plan) and how == "Completed" and isinstance(outcome, Failed):
        # What it planned cannot be run.
        return
    wanted = "Completed" if isinstance(outcome, Completed) else "TimedOut" if late else "Failed"
    if how != wanted and not (how in ("Cancelled", "Terminated", "StartFailed") and wanted == "Failed"):
        yield f"{label} ended: {outcome}, and the history has {kind}"
    elif isinstance(outcome, Completed) and event["result"] != outcome.value:
        yield f"{label} returned {outcome.value}, and the history has {event['result']}"


def _label(name: str, index: int | None) -> str:
    return name if index is None else f"{name}[{index}]"


def without_words(value: Any) -> Any:
    """Return a value in which no text says why something failed: the oracle has no words of its own.

    Args:
        value: What a node was given, or has returned.
    """
    if isinstance(value, Mapping):
        hidden = ("message", "type") if "timed_out" in value or value.keys() == {"type", "message"} else ()
        return {name: "" if name in hidden else without_words(one) for name, one in value.items()}
    if isinstance(value, str) and len(value) > 1:
        return ""
    if isinstance(value, list | tuple):
        return [without_words(one) for one in value]
    return value
