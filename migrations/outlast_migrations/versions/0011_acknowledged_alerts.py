"""Alerts that somebody has seen; and indexes by instant that hold the keys: equal instants are read in pages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from outlast_migrations.columns import add_columns, drop_columns, integer_or_null, text_or_null

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_BY_INSTANT = (
    ("ix_runs_deadline", "workflow_runs", ["next_deadline_at", "run_id"], "next_deadline_at IS NOT NULL"),
    (
        "ix_activities_deadline",
        "activity_executions",
        ["next_deadline_at", "run_id", "activity_id"],
        "next_deadline_at IS NOT NULL",
    ),
    ("ix_timers_fire_at", "timers", ["fire_at", "run_id", "timer_id"], None),
    ("ix_alert_timers_due", "alert_timers", ["due_at", "run_id", "activity_id", "kind", "mark"], None),
)


def _index(name: str, table: str, columns: list[str], where: str | None) -> None:
    only = None if where is None else sa.text(where)
    op.create_index(name, table, columns, sqlite_where=only, postgresql_where=only)


def upgrade() -> None:
    add_columns("alerts", integer_or_null("acknowledged_at"), text_or_null("acknowledged_by"))
    _index("ix_alerts_open", "alerts", ["alert_id"], "acknowledged_at IS NULL")
    for name, table, columns, where in _BY_INSTANT:
        op.drop_index(name, table)
        _index(name, table, columns, where)


def downgrade() -> None:
    for name, table, columns, where in _BY_INSTANT:
        op.drop_index(name, table)
        _index(name, table, columns[:1], where)
    op.drop_index("ix_alerts_open", "alerts")
    drop_columns("alerts", "acknowledged_at", "acknowledged_by")
