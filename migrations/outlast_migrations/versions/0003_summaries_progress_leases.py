"""Summaries of runs, activities and timers; the progress of a run; the duration of a worker's lease."""

from __future__ import annotations

from outlast_migrations.columns import add_columns, drop_columns, integer_or_null, text_or_null

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_columns("workflow_runs", text_or_null("summary"), text_or_null("progress"))
    add_columns("activity_executions", text_or_null("summary"))
    add_columns("timers", text_or_null("summary"))
    add_columns("workers", integer_or_null("lease_duration"))


def downgrade() -> None:
    drop_columns("workers", "lease_duration")
    drop_columns("timers", "summary")
    drop_columns("activity_executions", "summary")
    drop_columns("workflow_runs", "summary", "progress")
