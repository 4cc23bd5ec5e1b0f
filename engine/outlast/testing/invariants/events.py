"""What must hold of events that were published, and of who listens to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def check_events(
    events: Sequence[Sequence[Any]], subscriptions: Sequence[Sequence[Any]]
) -> Iterator[tuple[str, str]]:
    """Check events and subscriptions. Yield the place, and a sentence.

    Args:
        events: Their rows.
        subscriptions: Their rows.
    """
    for key, _, _, _, _, received_at, routed_at in events:
        if routed_at is not None and routed_at < received_at:
            yield f"event {key}", f"was routed at {routed_at}, before it was received at {received_at}"
    seen: dict[tuple[str, str], tuple[int, int]] = {}
    for first_run_id, execution, position, _, _, paths, key_hash, after, opened_at in subscriptions:
        where = f"subscription {position} of {execution} of chain {first_run_id}"
        if (paths == "") != (key_hash == ""):
            yield where, f"has paths={paths!r}, but key_hash={key_hash!r}"
        if seen.setdefault((first_run_id, execution), (after, opened_at)) != (after, opened_at):
            yield where, "does not begin where the others of its execution do"
