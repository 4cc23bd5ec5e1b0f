"""What may be claimed: in its indexes the type stands before the time, so that a claim passes over types by seeks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_RUNS = "wake_at IS NOT NULL AND owner_id IS NULL"
_ACTIVITIES = "status = 'pending' AND queue IS NULL"


def _index(name: str, table: str, columns: list[str], where: str) -> None:
    op.drop_index(name, table)
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def upgrade() -> None:
    _index("ix_runs_claimable", "workflow_runs", ["task_queue", "workflow_type", "wake_at"], _RUNS)
    columns = ["task_queue", "activity_type", "priority", "available_at"]
    _index("ix_activities_claimable", "activity_executions", columns, _ACTIVITIES)


def downgrade() -> None:
    _index("ix_runs_claimable", "workflow_runs", ["task_queue", "wake_at"], _RUNS)
    columns = ["task_queue", "priority", "available_at"]
    _index("ix_activities_claimable", "activity_executions", columns, _ACTIVITIES)
