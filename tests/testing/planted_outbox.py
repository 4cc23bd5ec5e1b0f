"""What breaks the rules about the outbox, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, run_of

ROW = "INSERT INTO outlast_outbox (kind, workflow_id, name, args, options, state) VALUES"

PLANTED: Planted = [
    (f"{ROW} ('start', 'w', 'Order', '[]', '{{}}', 'refused')", "is refused, but refused_at=None"),
    (
        f"{ROW} ('start', 'asleep', 'Order', '[]', json_object('run_id', {run_of('asleep')}), 'waiting')",
        "starts a workflow that is there already",
    ),
]
