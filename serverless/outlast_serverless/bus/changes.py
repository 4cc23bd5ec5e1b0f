"""Changes of the journal: publish events, open and close subscriptions, note what was routed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from outlast_serverless.events.interests import Interest
from outlast_store.database.sql_text import marks
from outlast_store.journal.batch import BaseChange, Batch

_OF_EXECUTION: Final = "FROM serverless_subscriptions WHERE first_run_id = ? AND execution_id = ?"


class PublishEvents(BaseChange):
    """Keep events, so that the router finds them; what is kept already stays as it is.

    Args:
        events: The events, which were checked, each with the whole of it as stored.
    """

    def __init__(self, events: Sequence[tuple[dict[str, Any], str]]) -> None:
        self.events = events
        self.weight = sum(512 + len(document) for _, document in events)

    def apply(self, batch: Batch) -> int:
        """Return how many are new: no other with their ``source`` and ``id`` is kept."""
        text = (
            "INSERT INTO serverless_events (source, id, event_type, document, received_at) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING"
        )
        return sum(
            batch.execute(text, (one["source"], one["id"], one["type"], document, batch.now))
            for one, document in self.events
        )


class OpenSubscriptions(BaseChange):
    """Subscribe an execution of a listen task to events, or narrow what it is subscribed to.

    Args:
        workflow_id: The workflow that listens.
        first_run_id: The first run of its chain.
        execution_id: The execution of the task.
        interests: The events.
        lookback_us: How far back it looks, in microseconds; ``None`` for events from now on.
        after: The key of the last event that it does not see, where that is known.
    """

    def __init__(
        self,
        workflow_id: str,
        first_run_id: str,
        execution_id: str,
        interests: Sequence[Interest],
        lookback_us: int | None,
        after: int | None = None,
    ) -> None:
        self.workflow_id = workflow_id
        self.key = (first_run_id, execution_id)
        self.interests = interests
        self.lookback_us = lookback_us
        self.after = after

    def apply(self, batch: Batch) -> int:
        """Return the key of the last event that it does not see. What it has seen before stays seen."""
        known = batch.scan(f"SELECT after_key, opened_at {_OF_EXECUTION} LIMIT 1", self.key)
        after, opened_at = known[0] if known else (self._after(batch), batch.now)
        if known:
            batch.execute(f"DELETE {_OF_EXECUTION}", self.key)
        text = (
            "INSERT INTO serverless_subscriptions (first_run_id, execution_id, position, workflow_id, event_type, "
            "paths, key_hash, after_key, opened_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        )
        for position, one in enumerate(self.interests):
            batch.execute(text, (*self.key, position, self.workflow_id, *one, after, opened_at))
        return int(after)

    def _after(self, batch: Batch) -> int:
        if self.after is not None:
            return self.after
        last = "SELECT MAX(event_key) FROM serverless_events"
        if self.lookback_us is not None:
            first = "SELECT MIN(event_key) FROM serverless_events WHERE received_at >= ?"
            found = batch.scan(first, (batch.now - self.lookback_us,))[0][0]
            if found is not None:
                return int(found) - 1
        return int(batch.scan(last, ())[0][0] or 0)


class CloseSubscriptions(BaseChange):
    """Close the subscriptions of an execution of a listen task.

    Args:
        first_run_id: The first run of its chain.
        execution_id: The execution of the task.
    """

    def __init__(self, first_run_id: str, execution_id: str) -> None:
        self.key = (first_run_id, execution_id)

    def apply(self, batch: Batch) -> None:
        """Close them."""
        batch.execute(f"DELETE {_OF_EXECUTION}", self.key)


class NoteRouted(BaseChange):
    """Note that events have reached all who listened to them.

    Args:
        keys: The keys of the events.
    """

    def __init__(self, keys: Sequence[int]) -> None:
        self.keys = keys

    def apply(self, batch: Batch) -> int:
        """Return how many nobody had noted before."""
        which = f"event_key IN ({marks(self.keys)}) AND routed_at IS NULL"
        text = f"UPDATE serverless_events SET routed_at = ? WHERE {which}"
        return batch.execute(text, (batch.now, *self.keys))


class DropSubscriptions(BaseChange):
    """Close all subscriptions of chains that have ended, unless a reset has opened them again since somebody looked.

    Args:
        first_run_ids: The first run of each.
    """

    def __init__(self, first_run_ids: Sequence[str]) -> None:
        self.first_run_ids = first_run_ids

    def apply(self, batch: Batch) -> int:
        """Return how many were closed."""
        text = (
            f"DELETE FROM serverless_subscriptions WHERE first_run_id IN ({marks(self.first_run_ids)}) "
            "AND NOT EXISTS (SELECT 1 FROM workflow_instances i JOIN workflow_runs r ON r.run_id = i.current_run_id "
            "WHERE i.workflow_id = serverless_subscriptions.workflow_id "
            "AND r.first_run_id = serverless_subscriptions.first_run_id AND r.closed_at IS NULL)"
        )
        return batch.execute(text, tuple(self.first_run_ids))


class DropEvents(BaseChange):
    """Forget routed events that were received long ago.

    Args:
        kept_us: How long events are kept, in microseconds.
        most: How many are forgotten at most.
    """

    def __init__(self, kept_us: int, most: int) -> None:
        self.kept_us = kept_us
        self.most = most

    def apply(self, batch: Batch) -> int:
        """Return how many were forgotten."""
        text = (
            "DELETE FROM serverless_events WHERE event_key IN (SELECT event_key FROM serverless_events "
            "WHERE received_at < ? AND routed_at IS NOT NULL ORDER BY received_at LIMIT ?)"
        )
        return batch.execute(text, (batch.now - self.kept_us, self.most))
