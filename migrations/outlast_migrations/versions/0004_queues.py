"""Queues: their limits, their partitions, and where runs and activities stand in them; the alerts of a run."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from outlast_migrations.columns import (
    add_columns,
    bytes_or_null,
    drop_columns,
    integer_or_null,
    text_of_bytes,
    text_or_null,
)

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_INDEXES = (
    (
        "ix_runs_line",
        "workflow_runs",
        ["queue", "partition_key", "priority", "queued_at", "run_id"],
        "queued_at IS NOT NULL",
    ),
    (
        "ix_runs_delayed",
        "workflow_runs",
        ["queue", "partition_key"],
        "status = 'queued' AND queued_at IS NULL",
    ),
    ("ix_runs_queue", "workflow_runs", ["queue", "run_id"], "queue IS NOT NULL"),
    ("ix_runs_slots", "workflow_runs", ["slot_queue", "partition_key", "owner_id"], "slot_queue IS NOT NULL"),
    ("ix_runs_slot_owner", "workflow_runs", ["slot_queue", "owner_id", "wake_at"], "slot_queue IS NOT NULL"),
    (
        "ix_activities_line",
        "activity_executions",
        ["queue", "partition_key", "priority", "available_at"],
        "status = 'pending' AND queue IS NOT NULL",
    ),
    (
        "ix_activities_slots",
        "activity_executions",
        ["queue", "partition_key", "claimed_by", "status"],
        "status = 'running' AND queue IS NOT NULL",
    ),
)


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=False)


def _integer(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _index_claimable(where: str) -> None:
    _index(
        "ix_activities_claimable", "activity_executions", ["task_queue", "priority", "available_at"], where
    )


def upgrade() -> None:
    add_columns(
        "workflow_runs",
        text_or_null("queue"),
        bytes_or_null("partition_key"),
        integer_or_null("queued_at"),
        text_or_null("slot_queue"),
        integer_or_null("start_deadline_at"),
        text_or_null("alerts"),
    )
    op.drop_index("ix_activities_claimable", "activity_executions")
    add_columns("activity_executions", text_or_null("queue"), bytes_or_null("partition_key"))
    _index_claimable("status = 'pending' AND queue IS NULL")
    for name, table, columns, where in _INDEXES:
        _index(name, table, columns, where)
    op.create_table(
        "queues",
        _text("queue"),
        integer_or_null("concurrency"),
        integer_or_null("worker_concurrency"),
        integer_or_null("rate_limit"),
        integer_or_null("rate_per"),
        integer_or_null("partition_concurrency"),
        integer_or_null("partition_worker_concurrency"),
        integer_or_null("partition_rate_limit"),
        integer_or_null("partition_rate_per"),
        integer_or_null("paused_at"),
        text_or_null("note"),
        _integer("created_at"),
        _integer("updated_at"),
        integer_or_null("deleted_at"),
        bytes_or_null("cursor"),
        integer_or_null("cycle_at"),
        text_or_null("rate_log"),
        sa.PrimaryKeyConstraint("queue", name="pk_queues"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "queue_partitions",
        _text("queue"),
        sa.Column("partition_key", text_of_bytes(), nullable=False),
        _text("rate_log"),
        _integer("expires_at"),
        sa.PrimaryKeyConstraint("queue", "partition_key", name="pk_queue_partitions"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_queue_partitions_expiry", "queue_partitions", ["expires_at"])


def downgrade() -> None:
    op.drop_table("queue_partitions")
    op.drop_table("queues")
    for name, table, _, _ in _INDEXES:
        op.drop_index(name, table)
    op.drop_index("ix_activities_claimable", "activity_executions")
    drop_columns("activity_executions", "queue", "partition_key")
    _index_claimable("status = 'pending'")
    drop_columns(
        "workflow_runs",
        "queue",
        "partition_key",
        "queued_at",
        "slot_queue",
        "start_deadline_at",
        "alerts",
    )
