"""Schedules: one row each, and an index of when each is looked at next."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from outlast_migrations.columns import integer_or_null, text_or_null

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("schedule_id", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("workflow_type", sa.Text(), nullable=False),
        sa.Column("task_queue", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("overlap", sa.Text(), nullable=False),
        sa.Column("catch_up", sa.Text(), nullable=False),
        sa.Column("catch_up_window", sa.BigInteger(), nullable=False),
        sa.Column("pause_on_failure", sa.Boolean(), nullable=False),
        integer_or_null("paused_at"),
        text_or_null("note"),
        integer_or_null("max_runs"),
        integer_or_null("remaining_runs"),
        sa.Column("decided_until", sa.BigInteger(), nullable=False),
        integer_or_null("last_slot_at"),
        integer_or_null("next_look_at"),
        text_or_null("buffered"),
        text_or_null("last_workflow_id"),
        text_or_null("last_first_run_id"),
        text_or_null("failed_run_id"),
        text_or_null("recent"),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("schedule_id", name="pk_schedules"),
        sqlite_with_rowid=False,
    )
    where = sa.text("next_look_at IS NOT NULL")
    op.create_index(
        "ix_schedules_look", "schedules", ["next_look_at"], sqlite_where=where, postgresql_where=where
    )


def downgrade() -> None:
    op.drop_table("schedules")
