"""Deadline alerts: the marks that lie ahead, found by when they are due, and the alerts that were fired."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from outlast_migrations.columns import integer_or_null, text_or_null

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alert_timers",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("activity_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        integer_or_null("deadline_at"),
        sa.PrimaryKeyConstraint("run_id", "activity_id", "kind", "mark", name="pk_alert_timers"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_alert_timers_due", "alert_timers", ["due_at"])
    op.create_table(
        "alerts",
        sa.Column("alert_id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("activity_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("workflow_type", sa.Text(), nullable=False),
        text_or_null("activity_type"),
        sa.Column("task_queue", sa.Text(), nullable=False),
        integer_or_null("deadline_at"),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("fired_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("alert_id", name="pk_alerts"),
        sqlite_with_rowid=False,
    )
    once = ["scope", "activity_id", "attempt", "kind", "mark"]
    op.create_index("ix_alerts_once", "alerts", once, unique=True)
    op.create_index("ix_alerts_run", "alerts", ["run_id"])
    op.create_index("ix_alerts_workflow_id", "alerts", ["workflow_id", "alert_id"])


def downgrade() -> None:
    op.drop_table("alerts")
    op.drop_table("alert_timers")
