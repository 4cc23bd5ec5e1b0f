"""When an alert is to come, in the words that people read."""

from __future__ import annotations

from outlast.text.wording import words
from outlast_workflow.options.alerts import ENFORCED
from outlast_workflow.primitives.enums import AlertKind


def mark_words(mark: str, kind: str) -> str:
    """Return when an alert is to come: ``at 80% of the run timeout``, ``10 min before the run timeout``, ``after 1 h``.

    Args:
        mark: Its mark.
        kind: What it is about.
    """
    if kind == AlertKind.AT_INSTANT:
        return f"at {mark}"
    if kind == AlertKind.AFTER:
        return f"after {words(float(mark[1:-1]))}"
    timeout = f"the {kind.replace('_', '-')} timeout"
    if mark == ENFORCED:
        return f"when {timeout} passes"
    if mark.endswith("%"):
        return f"at {mark} of {timeout}"
    return f"{words(float(mark[1:-1]))} before {timeout}"
