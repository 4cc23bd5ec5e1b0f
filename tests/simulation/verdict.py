"""What must hold when all is over: the invariants of the database, and the ledger of the clients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import orjson
from sqlalchemy import Connection
from tests.simulation.alerts import check_alerts, read_alerts
from tests.simulation.asked import check_queries, check_updates
from tests.simulation.clients import DONE, REFUSED, Ledger, Request
from tests.simulation.guests import check_guests
from tests.simulation.mail import check_mail
from tests.simulation.process import CONVERTER, LIMITS
from tests.simulation.programs import ALERTED, UNHEARD, Executions, Program
from tests.simulation.scheduled import Schedules, check_schedules, started_by_schedules
from tests.simulation.story import Story

from outlast.testing import check_database
from outlast.testing.prefix_replay import check_every_prefix
from outlast_store.database.sql_text import fetch
from outlast_store.reads.histories import read_history
from outlast_workflow.declare.definitions import definition_of
from outlast_workflow.primitives.times import from_iso
from outlast_workflow.run.machine import WorkflowMachine

ENDS = {
    "WorkflowCompleted": None,
    "WorkflowFailed": "WorkflowFailedError",
    "WorkflowTimedOut": "WorkflowTimeoutError",
    "WorkflowCancelled": "WorkflowCancelledError",
    "WorkflowTerminated": "WorkflowTerminatedError",
}

NOT_TAKEN = (UNHEARD, ALERTED)
"""Signals that programs handle otherwise."""


def judge(
    connection: Connection,
    ledger: Ledger,
    executions: Executions,
    schedules: Schedules,
    exports: Path | None = None,
    *,
    alive: Sequence[object] = (),
) -> list[str]:
    """Everything that is wrong. What retention has deleted is in its ``exports``; ``alive`` are clocks of processes."""
    found = check_database(connection, deleting=exports is not None)
    story = Story(connection, exports)
    found += story.wrong
    found += [
        f"workflow {workflow_id} never ends: run {run_id} is open" for workflow_id, run_id in story.open
    ]
    found += check_tasks(story)
    found += check_schedules(connection, story, schedules)
    found += check_starts(story, ledger)
    found += check_signals(story, ledger)
    found += check_mail(story, ledger)
    found += check_alerts(connection, story)
    found += check_requests(story, ledger)
    found += check_resets(story, ledger)
    found += check_forks(story, ledger)
    found += check_updates(story, ledger)
    found += check_queries(story, ledger)
    found += check_results(story, ledger)
    found += check_executions(story, executions)
    found += check_guests(connection, story)
    found += check_answers(story, executions)
    found += check_late_answers(connection, executions)
    found += check_heartbeats(connection, executions)
    found += check_failures_after_cancel(connection, executions, alive)
    return found


def check_prefixes(connection: Connection) -> Iterator[str]:
    """A run may leave memory after any workflow task: what it asks for after a replay is what it asked for."""
    definition = definition_of(Program.run)
    for (run_id,) in fetch(
        connection, "SELECT run_id FROM workflow_runs WHERE workflow_type = 'Program' ORDER BY run_id"
    ):
        rows = read_history(connection, run_id)

        def machine(run_id: str = run_id) -> WorkflowMachine:
            return WorkflowMachine(definition, run_id, converter=CONVERTER, limits=LIMITS)

        for what in check_every_prefix(machine, rows):
            yield f"run {run_id}: {what}"


def check_tasks(story: Story) -> Iterator[str]:
    """The programs are deterministic, so no task of theirs may fail, but for a queue that is not there for a while."""
    for run_id, events in story.events.items():
        for kind, _, payload in events:
            if kind == "WorkflowTaskFailed" and payload["failure"].get("type") != "QueueNotFoundError":
                yield f"a task of run {run_id} failed: {payload['failure'].get('message')}"


def check_starts(story: Story, ledger: Ledger) -> Iterator[str]:
    """What was acknowledged is there, once; and nothing was refused for what the same client had done."""
    asked: dict[str, list[Request]] = defaultdict(list)
    for request in ledger.of("start") + ledger.of("signal_with_start"):
        asked[request.workflow_id].append(request)
    for workflow_id, requests in asked.items():
        chains = story.chains_of.get(workflow_id, [])
        tries = sum(request.tries for request in requests)
        acknowledged = [request for request in requests if request.state == DONE and request.run_id]
        for request in acknowledged:
            if not any(request.run_id in story.chains[first] for first in chains):
                yield f"the start of {workflow_id} as run {request.run_id} was acknowledged, and is not there"
        if len(chains) > tries or (acknowledged and not chains):
            yield f"{workflow_id} was started {len(chains)} times in {tries} tries"
        others = len(requests) > 1
        for request in requests:
            if request.kind != "start" or others:
                continue
            if request.state == REFUSED:
                yield f"the start of {workflow_id} was refused ({request.problem}), though nobody else started it"
            if len(chains) != 1 and request.state == DONE and request.tries == 1:
                yield f"{workflow_id} was started once and has {len(chains)} chains"
    scheduled = started_by_schedules(story)
    for workflow_id, chains in story.chains_of.items():
        forked = all(story.is_fork(first) for first in chains)
        if "/" not in workflow_id and not (forked or workflow_id in asked or scheduled.keys() & set(chains)):
            yield f"{workflow_id} is there, and nobody started it"


def check_signals(story: Story, ledger: Ledger) -> Iterator[str]:
    """What was acknowledged is there once, in order; what was refused is not there; what ended well has handled it."""
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for first_run_id, chain in story.chains.items():
        if story.is_fork(first_run_id):
            continue
        for number, run_id in enumerate(chain):
            for kind, _, payload in story.events[run_id]:
                if kind == "SignalReceived":
                    token = orjson.dumps(payload["input"]).decode()
                    places[token].append((first_run_id, number))
    for request in ledger.of("signal") + ledger.of("signal_with_start"):
        if request.token:
            found = [place for token, at in places.items() if f'"{request.token}"' in token for place in at]
            yield from _check_signal(request, found)
    yield from _check_handled(story, ledger)


def _check_signal(request: Request, found: list[tuple[str, int]]) -> Iterator[str]:
    what = f"signal {request.token} to {request.workflow_id} (key {request.key}, {request.state})"
    chains = {first for first, _ in found}
    if len(chains) > 1 and request.tries == 1:  # asked again, it may meet another chain under the same id
        yield f"{what} is in {len(chains)} chains"
    if len(set(found)) != len(found):
        yield f"{what} is {len(found)} times in its chain, in runs {[number for _, number in found]}"
    if request.state == DONE and not found:
        yield f"{what} was acknowledged, and is not there"
    if request.state == REFUSED and found and request.tries == 1:
        yield f"{what} was refused ({request.problem}), and is there"
    numbers = sorted(number for _, number in found) if len(chains) == 1 else []
    if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        yield f"{what} is in runs {numbers} of its chain: it did not move from one to the next"


def _check_handled(story: Story, ledger: Ledger) -> Iterator[str]:
    """A chain that returned has handled each of its signals once, and those of one client in order."""
    order = {request.token: request.before for request in ledger.requests if request.token}
    for first_run_id, chain in story.chains.items():
        kind, _, payload = story.end(first_run_id)
        if kind != "WorkflowCompleted":
            continue
        got = payload["result"]["got"]
        # A fork of a later run begins with what the runs before that had handled, in the order of handling.
        carried = story.events[first_run_id][0][2]["input"][1] if story.is_fork(first_run_id) else []
        sent: list[str] = list(carried)
        for run_id in story.effective(first_run_id):
            for name, _, event in story.events[run_id]:
                if name != "SignalReceived" or event["name"] in NOT_TAKEN:
                    continue
                if (token := event["input"][0]) not in sent:
                    sent.append(token)
        late_ones = story.after_cancel(chain[-1], "SignalReceived")
        after_cancel = [event for event in late_ones if event["name"] not in NOT_TAKEN]
        unheard = [event["input"][0] for event in after_cancel if event["input"][0] not in got]
        if sorted([*got, *unheard]) == sorted(sent):
            pass
        elif not story.retried(first_run_id) or len(set(got)) != len(got) or not set(got) <= set(sent):
            yield f"chain {first_run_id} got the signals {sent} and handled {got}"
        for token in sent:
            late = [
                other
                for other in order.get(token, ())
                if other in sent and sent.index(other) > sent.index(token) and other not in carried
            ]
            if late:
                yield f"chain {first_run_id} got {token} before {late}, which its client had sent before it"


def check_requests(story: Story, ledger: Ledger) -> Iterator[str]:
    """A cancel request or termination that was acknowledged is in a chain of its workflow."""
    for request in ledger.of("cancel") + ledger.of("terminate"):
        if request.state != DONE:
            continue
        chains = story.chains_of.get(request.workflow_id, [])
        if request.kind == "cancel" and not any(first in story.cancelled for first in chains):
            yield f"the cancel request for {request.workflow_id} was acknowledged, and is not there"
        if request.kind == "terminate" and not any(
            event[0] == "WorkflowTerminated"
            for first in chains
            for run_id in story.chains[first]
            for event in story.events[run_id]
        ):
            yield f"the termination of {request.workflow_id} was acknowledged, and is not there"


def check_forks(story: Story, ledger: Ledger) -> Iterator[str]:
    """A fork that was acknowledged is there, and each fork has an original that somebody asked to fork."""
    forks = {
        first: story.events[first][0][2]["forked_from"] for first in story.chains if story.is_fork(first)
    }
    asked = {request.workflow_id for request in ledger.of("fork")}
    for request in ledger.of("fork"):
        if request.state == DONE and request.run_id is not None and request.run_id not in forks:
            yield f"the fork of {request.workflow_id} as run {request.run_id} was acknowledged, and is not there"
    for first, fork in forks.items():
        if fork["workflow_id"] not in asked:
            yield f"run {first} is a fork of {fork['workflow_id']}, which nobody asked to fork"


def check_resets(story: Story, ledger: Ledger) -> Iterator[str]:
    """A reset or resume that was acknowledged is a run of a chain of its workflow."""
    for request in ledger.of("reset") + ledger.of("resume"):
        chains = story.chains_of.get(request.workflow_id, [])
        if request.state != DONE or request.run_id is None:
            continue
        if not any(request.run_id in story.chains[first] for first in chains):
            yield f"the reset of {request.workflow_id} to run {request.run_id} was acknowledged, and is not there"


def check_results(story: Story, ledger: Ledger) -> Iterator[str]:
    """Clients were told what the histories say."""
    for result in ledger.results:
        if result.run_id not in story.chains:
            yield f"a client heard of the end of run {result.run_id}, which is not there"
            continue
        ends = [(kind, payload) for kind, _, payload in story.ends(result.run_id)]
        fitting = [payload for kind, payload in ends if ENDS.get(kind, "nothing") == result.error]
        if not fitting:
            kinds = [kind for kind, _ in ends]
            yield f"a client heard {result.error} of {result.workflow_id}, which ended with {kinds}"
        elif result.error is None and not any(payload["result"] == result.value for payload in fitting):
            yield f"a client heard another result of {result.workflow_id} than its history has"


def check_executions(story: Story, executions: Executions) -> Iterator[str]:
    """An activity's result is what its own last attempt returned, not what one of the dead said."""
    attempts = {(run_id, activity_id): attempt for run_id, activity_id, attempt in story.activities}
    for run_id in story.events:
        for kind, _, payload in story.own(run_id):
            if kind != "ActivityCompleted":
                continue
            key = run_id, payload["command_id"]
            returned = executions.returned.get(payload["result"])
            if returned != (*key, attempts.get(key)):
                yield (
                    f"activity {key[1]} of run {run_id} completed in attempt {attempts.get(key)} with a result "
                    f"that {returned} returned"
                )


def check_answers(story: Story, executions: Executions) -> Iterator[str]:
    """An answer from outside that was acknowledged is the result of its activity."""
    for question in executions.questions:
        run_id, activity_id, _ = question.key
        if not question.acknowledged or question.behaviour["end"] != "ok" or run_id not in story.events:
            continue
        completed = [
            payload["result"]
            for kind, _, payload in story.events[run_id]
            if kind == "ActivityCompleted" and payload["command_id"] == activity_id
        ]
        if completed != [question.answer]:
            yield (
                f"the answer {question.answer} to activity {activity_id} of run {run_id} was acknowledged, "
                f"and the history has {completed}"
            )


def check_late_answers(connection: Connection, executions: Executions) -> Iterator[str]:
    """A failure from outside is refused only if its attempt has ended in another way than by being cancelled."""
    text = "SELECT run_id, activity_id, attempt FROM activity_attempts WHERE outcome = 'cancelled'"
    cancelled = {tuple(row) for row in fetch(connection, text)}
    for question in executions.questions:
        if question.refused and question.behaviour["end"] != "ok" and question.key in cancelled:
            run_id, activity_id, attempt = question.key
            yield (
                f"attempt {attempt} of activity {activity_id} of run {run_id} failed outside after it was cancelled, "
                "and nothing says so"
            )


def check_heartbeats(connection: Connection, executions: Executions) -> Iterator[str]:
    """A heartbeat counts from when a handler beat, not from when that was written."""
    text = "SELECT run_id, activity_id, heartbeat_at FROM activity_executions WHERE heartbeat_at IS NOT NULL"
    for run_id, activity_id, heartbeat_at in fetch(connection, text):
        # A reset copies activities to a run in which nobody beats.
        beaten_at = executions.beaten_at.get((run_id, activity_id), heartbeat_at)
        if heartbeat_at > beaten_at:
            late = heartbeat_at - beaten_at
            yield f"a heartbeat of activity {activity_id} of run {run_id} counts from {late} µs after its handler beat"


def check_failures_after_cancel(
    connection: Connection, executions: Executions, alive: Sequence[object]
) -> Iterator[str]:
    """A handler that was asked to stop and failed is not taken for one that obeyed, unless its process is gone."""
    text = "SELECT run_id, activity_id, attempt, outcome FROM activity_attempts WHERE outcome = 'cancelled'"
    for run_id, activity_id, attempt, outcome in fetch(connection, text):
        clock = executions.failed_after_cancel.get((run_id, activity_id, attempt))
        if any(clock is one for one in alive):
            yield (
                f"attempt {attempt} of activity {activity_id} of run {run_id} failed after it was asked to stop, "
                f"and its row says {outcome}"
            )


def lateness(
    connection: Connection, after: int, given_late: Container[str] = ()
) -> Iterator[tuple[int, str]]:
    """By how much each timer, timeout and alert that was due after an instant was late, in microseconds.

    Args:
        connection: To the database.
        after: The instant, in microseconds.
        given_late: Marks of alerts that a run may get after they are over, by a rule that came later.
    """
    # A reset takes timers up whose time is over, and code may set itself a limit that is over.
    text = (
        "SELECT r.run_id, max(r.created_at, coalesce((SELECT max(l.recorded_at) FROM history_events l "
        "WHERE l.run_id = r.run_id AND l.type = 'WorkflowDeadlineLowered'), 0)) FROM workflow_runs r"
    )
    since: dict[str, int] = {row[0]: row[1] for row in fetch(connection, text)}
    text = (
        "SELECT run_id, type, recorded_at, payload FROM history_events "
        "WHERE type IN ('TimerFired', 'ActivityTimedOut', 'WorkflowTimedOut')"
    )
    for run_id, kind, recorded_at, payload in fetch(connection, text):
        document = orjson.loads(payload)
        due_at = document["fire_at"] if kind == "TimerFired" else from_iso(document["deadline_at"])
        due_at = max(due_at, since[run_id])
        if due_at >= after:
            yield recorded_at - due_at, f"{kind} of run {run_id}"
    for alert in read_alerts(connection):
        due_at = max(alert.due_at, since.get(alert.run_id, 0))
        if due_at >= after and alert.mark not in given_late:
            yield alert.fired_at - due_at, f"alert {alert.kind} {alert.mark} of run {alert.run_id}"
