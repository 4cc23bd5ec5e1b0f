"""Where a run of a document stands, as the command line prints it."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from rich.text import Text

from outlast.cli.common.output import console, deadline, left, show, table
from outlast.cli.common.stderr import tell
from outlast.text.wording import ago, clock
from outlast_serverless.runtime.run import DocumentRun, DocumentState

_LEAST_FOR_INSTANTS: Final = 110
"""So wide is a terminal that has room for the instants of deadlines, too."""
_OTHER_COLUMNS: Final = 46
"""How much room all columns but the first need, without those instants."""
_INSTANT: Final = 26
_LOOK_S: Final = 2
"""How often it is looked whether a run that is waited for needs attention."""
_ENDED: Final = frozenset({"completed", "faulted", "cancelled"})


def show_state(state: DocumentState, now: datetime) -> None:
    """Print where a run stands.

    Args:
        state: Where it stands.
        now: The current time.
    """
    show(f"{state.workflow_id}: {state.document}:{state.version}, {state.phase}")
    if state.deadline_at is not None and state.phase not in _ENDED:
        show(Text.assemble("timeout of the workflow: ", deadline(state.deadline_at, now)))
    if state.error is not None:
        told = state.error.get("detail") or state.error.get("title")
        show(f"error at {state.error.get('instance')}: {told}")
        show(f"  {state.error.get('type')}, status {state.error.get('status')}")
    for reason in state.attention:
        show(f"attention: {reason}")
    if not state.open:
        return
    wide = console().width >= _LEAST_FOR_INSTANTS
    room = console().width - _OTHER_COLUMNS - (_INSTANT if wide else 0)
    rows = table("TASK", "OPEN", "SINCE", "UNTIL", *(["AT"] if wide else []), drop=("SINCE",), clip="TASK")
    for one in state.open:
        task = f"{one.pointer}#{one.execution}" if one.execution else one.pointer
        at = "" if one.deadline_at is None else clock(one.deadline_at)
        rows.add_row(
            ended(task, room),
            one.kind,
            ago(one.since, now),
            left(one.deadline_at, now),
            *([at] if wide else []),
        )
    show(rows)


async def tell_attention(run: DocumentRun) -> None:
    """Wait until a run needs attention, and say why on stderr: whoever waits for it would wait without a word.

    Args:
        run: The run.
    """
    reasons: tuple[str, ...] = ()
    while not reasons:
        await asyncio.sleep(_LOOK_S)
        reasons = (await run.describe()).attention
    for reason in reasons:
        tell(f"{run.id} needs attention: {reason}")


def ended(task: str, room: int) -> str:
    """Return the end of what names a task if it is too long: that says more than its beginning.

    Args:
        task: The pointer, with marks.
        room: How many letters there is room for.
    """
    return task if len(task) <= room else f"…{task[1 - room :]}"
