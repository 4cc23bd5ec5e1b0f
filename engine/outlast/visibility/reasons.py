"""Why something waits or is stuck, and what to do about it, in words: the same wherever it is shown."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from outlast.runtime.runtime import Runtime
from outlast.visibility.views import AttentionReason
from outlast_store.reads.attention import Need
from outlast_store.reads.serving import Lack, find_lacks
from outlast_workflow.primitives.enums import Attention

_CAUSES = {
    Attention.OWNERS_KEEP_DYING: "the workers that claimed it died, or left it waiting",
    Attention.OVERDUE: "a deadline or a timer passed more than 10 s ago, and no watchdog has enforced it",
    Attention.NO_POLLER: "it, or one of its activities, waits for a worker, and no live one serves its task queue",
    Attention.UNKNOWN_TYPE: "it, or one of its activities, waits for a worker, and none that lives knows its type",
    Attention.UNKNOWN_QUEUE: (
        "it, or one of its activities, stands in the line of a queue that is not defined: it was deleted meanwhile"
    ),
    Attention.QUEUE_PAUSED: (
        "it, or one of its activities, has waited for more than an hour in a queue that has been paused for as long"
    ),
}
_REMEDIES = {
    Attention.OWNERS_KEEP_DYING: (
        "find out from their logs what kills or blocks them: memory, a crash in a C library, or long computations"
    ),
    Attention.OVERDUE: "start `outlast watchdog`; if one is running, check that it reaches the database",
    Attention.NO_POLLER: "`outlast workers` says who is there; start a worker for that task queue",
    Attention.UNKNOWN_TYPE: "`outlast workers` says who is there; give the workflow or activity to one of them",
    Attention.UNKNOWN_QUEUE: "`outlast queue define` defines it again, or cancel the workflow",
    Attention.QUEUE_PAUSED: "`outlast queue list` says what is paused, and why; `outlast queue resume` ends that",
}


def reasons(
    needs: Iterable[Need], *, workflow_id: str, task_failures: int, last_task_failure: str | None = None
) -> tuple[AttentionReason, ...]:
    """Return why a run needs attention, each with its cause and its remedy.

    Args:
        needs: What the store says.
        workflow_id: The workflow.
        task_failures: How many of its workflow tasks in a row have failed.
        last_task_failure: What the last of those raised, if that is known.
    """
    return tuple(_reason(need, workflow_id, task_failures, last_task_failure) for need in needs)


def kinds_of(needs: Iterable[Need]) -> tuple[Attention, ...]:
    """Return the kinds of attention that a run needs, each once."""
    return tuple(dict.fromkeys(Attention(need.kind) for need in needs))


def _reason(
    need: Need, workflow_id: str, task_failures: int, last_task_failure: str | None
) -> AttentionReason:
    kind = Attention(need.kind)
    if need.lack is not None:
        return AttentionReason(kind=kind, cause=need.lack.cause, remedy=need.lack.remedy)
    if kind is Attention.TASK_KEEPS_FAILING:
        cause = f"its workflow task has failed {task_failures} times in a row"
        quoted = shlex.quote(workflow_id)
        return AttentionReason(
            kind=kind,
            cause=f"{cause}: {last_task_failure}" if last_task_failure else cause,
            remedy=f"`outlast history {quoted}` says why; deploy corrected code, or `outlast reset {quoted}`",
        )
    return AttentionReason(kind=kind, cause=_CAUSES[kind], remedy=_REMEDIES[kind])


async def lacks_of(runtime: Runtime, run_id: str) -> list[str]:
    """Return what keeps a run from going on now because no live worker can serve it, each with its remedy.

    Args:
        runtime: The database.
        run_id: The run.
    """
    now = runtime.environment.clock.now()
    found: dict[str, list[Lack]] = await runtime.read(find_lacks, [run_id], now)
    return [f"{lack.cause}: {lack.remedy}" for lack in found.get(run_id, ())]
