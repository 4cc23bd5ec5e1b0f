"""The first tables: instances, runs, history, activities, timers, requests, workers, journals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _partial_index(name: str, table: str, columns: list[str], *, where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def upgrade() -> None:
    op.create_table(
        "workflow_instances",
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("workflow_type", sa.Text(), nullable=False),
        sa.Column("current_run_id", sa.Text(), nullable=False),
        sa.Column("run_count", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", name="pk_workflow_instances"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "workflow_runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("run_number", sa.BigInteger(), nullable=False),
        sa.Column("first_run_id", sa.Text(), nullable=False),
        sa.Column("previous_run_id", sa.Text(), nullable=True),
        sa.Column("next_run_id", sa.Text(), nullable=True),
        sa.Column("workflow_type", sa.Text(), nullable=False),
        sa.Column("task_queue", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("execution_timeout", sa.BigInteger(), nullable=True),
        sa.Column("execution_deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("run_timeout", sa.BigInteger(), nullable=True),
        sa.Column("run_deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("next_deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_event_at", sa.BigInteger(), nullable=False),
        sa.Column("inbox", sa.BigInteger(), nullable=False),
        sa.Column("wake_at", sa.BigInteger(), nullable=True),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("start_delayed", sa.Boolean(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("owner_losses", sa.BigInteger(), nullable=False),
        sa.Column("parent_run_id", sa.Text(), nullable=True),
        sa.Column("parent_command_id", sa.BigInteger(), nullable=True),
        sa.Column("parent_close_policy", sa.Text(), nullable=True),
        sa.Column("cascade_at", sa.BigInteger(), nullable=True),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("retry_policy", sa.Text(), nullable=True),
        sa.Column("memo", sa.Text(), nullable=True),
        sa.Column("cancel_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("task_failures", sa.BigInteger(), nullable=False),
        sa.Column("attention", sa.Text(), nullable=True),
        sa.Column("attention_since", sa.BigInteger(), nullable=True),
        sa.Column("build_id", sa.Text(), nullable=True),
        sa.Column("history_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_workflow_runs"),
        sqlite_with_rowid=False,
    )
    _partial_index(
        "ix_runs_attention", "workflow_runs", ["attention", "run_id"], where="attention IS NOT NULL"
    )
    _partial_index("ix_runs_cascade", "workflow_runs", ["cascade_at"], where="cascade_at IS NOT NULL")
    _partial_index(
        "ix_runs_children",
        "workflow_runs",
        ["parent_run_id"],
        where="parent_run_id IS NOT NULL AND closed_at IS NULL",
    )
    _partial_index(
        "ix_runs_claimable",
        "workflow_runs",
        ["task_queue", "wake_at"],
        where="wake_at IS NOT NULL AND owner_id IS NULL",
    )
    _partial_index(
        "ix_runs_deadline", "workflow_runs", ["next_deadline_at"], where="next_deadline_at IS NOT NULL"
    )
    _partial_index("ix_runs_open", "workflow_runs", ["run_id"], where="closed_at IS NULL")
    _partial_index("ix_runs_owned", "workflow_runs", ["owner_id", "wake_at"], where="owner_id IS NOT NULL")
    _partial_index(
        "ix_runs_trouble",
        "workflow_runs",
        ["status", "run_id"],
        where="status IN ('failed', 'timed_out', 'cancelled', 'terminated')",
    )
    op.create_index("ix_runs_type", "workflow_runs", ["workflow_type", "run_id"])
    op.create_table(
        "history_events",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_history_events"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "activity_executions",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("activity_id", sa.BigInteger(), nullable=False),
        sa.Column("activity_type", sa.Text(), nullable=False),
        sa.Column("task_queue", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("scheduled_seq", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("uncharged", sa.BigInteger(), nullable=False),
        sa.Column("rescues", sa.BigInteger(), nullable=False),
        sa.Column("scheduled_at", sa.BigInteger(), nullable=False),
        sa.Column("available_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=True),
        sa.Column("heartbeat_details", sa.Text(), nullable=True),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("last_failure", sa.Text(), nullable=True),
        sa.Column("schedule_to_start_deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("start_to_close_deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("schedule_to_close_deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("heartbeat_deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("next_deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("local", sa.Boolean(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "activity_id", name="pk_activity_executions"),
        sqlite_with_rowid=False,
    )
    _partial_index(
        "ix_activities_claimable",
        "activity_executions",
        ["task_queue", "priority", "available_at"],
        where="status = 'pending'",
    )
    _partial_index("ix_activities_claimed", "activity_executions", ["claimed_by"], where="status = 'running'")
    _partial_index(
        "ix_activities_deadline",
        "activity_executions",
        ["next_deadline_at"],
        where="next_deadline_at IS NOT NULL",
    )
    op.create_table(
        "activity_attempts",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("activity_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("timeout_kind", sa.Text(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "activity_id", "attempt", name="pk_activity_attempts"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "workflow_failures",
        sa.Column("failure_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=True),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("source_kind", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=True),
        sa.Column("failure_category", sa.Text(), nullable=False),
        sa.Column("propagation_kind", sa.Text(), nullable=False),
        sa.Column("exception_class", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=True),
        sa.Column("timeout_kind", sa.Text(), nullable=True),
        sa.Column("deadline_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("failure_id", name="pk_workflow_failures"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_failures_run", "workflow_failures", ["run_id", "failure_id"])
    op.create_table(
        "timers",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("timer_id", sa.BigInteger(), nullable=False),
        sa.Column("fire_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "timer_id", name="pk_timers"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_timers_fire_at", "timers", ["fire_at"])
    op.create_table(
        "workflow_requests",
        sa.Column("first_run_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("answer_seq", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("first_run_id", "kind", "request_id", name="pk_workflow_requests"),
        sqlite_with_rowid=False,
    )
    _partial_index("ix_requests_expiry", "workflow_requests", ["expires_at"], where="expires_at IS NOT NULL")
    _partial_index("ix_requests_open", "workflow_requests", ["run_id"], where="state = 'open'")
    op.create_table(
        "search_attributes",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", name="pk_search_attributes"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_search_attributes_value", "search_attributes", ["name", "value", "run_id"])
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("task_queues", sa.Text(), nullable=False),
        sa.Column("types", sa.Text(), nullable=False),
        sa.Column("build_id", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("worker_id", name="pk_workers"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_workers_lease", "workers", ["lease_expires_at"])
    op.create_table(
        "journals",
        sa.Column("journal_id", sa.Text(), nullable=False),
        sa.Column("batch_no", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("journal_id", name="pk_journals"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("journals")
    op.drop_table("workers")
    op.drop_table("search_attributes")
    op.drop_table("workflow_requests")
    op.drop_table("timers")
    op.drop_table("workflow_failures")
    op.drop_table("activity_attempts")
    op.drop_table("activity_executions")
    op.drop_table("history_events")
    op.drop_table("workflow_runs")
    op.drop_table("workflow_instances")
