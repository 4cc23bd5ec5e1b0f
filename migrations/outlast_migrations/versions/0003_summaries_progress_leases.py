"""Summaries of runs, activities and timers; the progress of a run; the duration of a worker's lease."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INDEXES: dict[str, tuple[tuple[str, tuple[str, ...], str | None], ...]] = {
    "workflow_runs": (
        ("ix_runs_attention", ("attention", "run_id"), "attention IS NOT NULL"),
        ("ix_runs_cascade", ("cascade_at",), "cascade_at IS NOT NULL"),
        ("ix_runs_children", ("parent_run_id",), "parent_run_id IS NOT NULL AND closed_at IS NULL"),
        ("ix_runs_claimable", ("task_queue", "wake_at"), "wake_at IS NOT NULL AND owner_id IS NULL"),
        ("ix_runs_deadline", ("next_deadline_at",), "next_deadline_at IS NOT NULL"),
        ("ix_runs_open", ("run_id",), "closed_at IS NULL"),
        ("ix_runs_owned", ("owner_id", "wake_at"), "owner_id IS NOT NULL"),
        (
            "ix_runs_trouble",
            ("status", "run_id"),
            "status IN ('failed', 'timed_out', 'cancelled', 'terminated')",
        ),
        ("ix_runs_type", ("workflow_type", "run_id"), None),
        ("ix_runs_workflow_id", ("workflow_id", "run_id"), None),
    ),
    "activity_executions": (
        ("ix_activities_claimable", ("task_queue", "priority", "available_at"), "status = 'pending'"),
        ("ix_activities_claimed", ("claimed_by",), "status = 'running'"),
        ("ix_activities_deadline", ("next_deadline_at",), "next_deadline_at IS NOT NULL"),
    ),
    "timers": (("ix_timers_fire_at", ("fire_at",), None),),
    "workers": (("ix_workers_lease", ("lease_expires_at",), None),),
}
"""The indexes in version 0002: names, columns and conditions."""

_KEYS = {
    "workflow_runs": ("run_id",),
    "activity_executions": ("run_id", "activity_id"),
    "timers": ("run_id", "timer_id"),
    "workers": ("worker_id",),
}


def _text(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.Text(), nullable=False)


def _text_or_null(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.Text(), nullable=True)


def _int(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _int_or_null(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.BigInteger(), nullable=True)


def _flag(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _run_columns() -> tuple[sa.Column[object], ...]:
    """Return the columns of workflow_runs in version 0002."""
    return (
        _text("run_id"),
        _text("workflow_id"),
        _int("run_number"),
        _text("first_run_id"),
        _text_or_null("previous_run_id"),
        _text_or_null("next_run_id"),
        _text("workflow_type"),
        _text("task_queue"),
        _int("priority"),
        _text("status"),
        _int("created_at"),
        _int_or_null("started_at"),
        _int_or_null("closed_at"),
        _int_or_null("execution_timeout"),
        _int_or_null("execution_deadline_at"),
        _int_or_null("run_timeout"),
        _int_or_null("run_deadline_at"),
        _int_or_null("next_deadline_at"),
        _int("last_seq"),
        _int("last_event_at"),
        _int("inbox"),
        _int_or_null("wake_at"),
        _int("not_before"),
        _flag("start_delayed"),
        _text_or_null("owner_id"),
        _int("fence"),
        _int("owner_losses"),
        _text_or_null("parent_run_id"),
        _int_or_null("parent_command_id"),
        _text_or_null("parent_close_policy"),
        _int_or_null("cascade_at"),
        _int("attempt"),
        _text_or_null("retry_policy"),
        _text_or_null("memo"),
        _int_or_null("cancel_requested_at"),
        _int("task_failures"),
        _text_or_null("attention"),
        _int_or_null("attention_since"),
        _text_or_null("build_id"),
        _int("history_bytes"),
        _text_or_null("search_attributes"),
    )


def _activity_columns() -> tuple[sa.Column[object], ...]:
    """Return the columns of activity_executions in version 0002."""
    return (
        _text("run_id"),
        _int("activity_id"),
        _text("activity_type"),
        _text("task_queue"),
        _int("priority"),
        _int("scheduled_seq"),
        _text("status"),
        _int("attempt"),
        _int("uncharged"),
        _int("rescues"),
        _int("scheduled_at"),
        _int("available_at"),
        _text_or_null("claimed_by"),
        _int_or_null("started_at"),
        _int_or_null("heartbeat_at"),
        _text_or_null("heartbeat_details"),
        _text("options"),
        _text_or_null("last_failure"),
        _int_or_null("schedule_to_start_deadline_at"),
        _int_or_null("start_to_close_deadline_at"),
        _int_or_null("schedule_to_close_deadline_at"),
        _int_or_null("heartbeat_deadline_at"),
        _int_or_null("next_deadline_at"),
        _flag("cancel_requested"),
        _flag("local"),
        _int_or_null("closed_at"),
    )


def _timer_columns() -> tuple[sa.Column[object], ...]:
    """Return the columns of timers in version 0002."""
    return (_text("run_id"), _int("timer_id"), _int("fire_at"))


def _worker_columns() -> tuple[sa.Column[object], ...]:
    """Return the columns of workers in version 0002."""
    return (
        _text("worker_id"),
        _text("host"),
        _int("pid"),
        _text("task_queues"),
        _text("types"),
        _text_or_null("build_id"),
        _int("started_at"),
        _int("lease_expires_at"),
    )


def _new_columns() -> dict[str, tuple[sa.Column[object], ...]]:
    return {
        "workflow_runs": (_text_or_null("summary"), _text_or_null("progress")),
        "activity_executions": (_text_or_null("summary"),),
        "timers": (_text_or_null("summary"),),
        "workers": (_int_or_null("lease_duration"),),
    }


def _remake(table: str, columns: tuple[sa.Column[object], ...], *more: sa.Column[object]) -> None:
    """Copy a table to one with other columns, because SQLite's ALTER TABLE leaves a schema unlike a fresh one.

    Args:
        table: Which table.
        columns: The columns that both have.
        *more: The new ones.
    """
    for name, _, _ in _INDEXES[table]:
        op.drop_index(name, table)
    op.rename_table(table, f"{table}_before")
    op.create_table(
        table,
        *columns,
        *more,
        sa.PrimaryKeyConstraint(*_KEYS[table], name=f"pk_{table}"),
        sqlite_with_rowid=False,
    )
    names = ", ".join(column.name for column in columns)
    op.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {table}_before")
    op.drop_table(f"{table}_before")
    for name, indexed, where in _INDEXES[table]:
        op.create_index(name, table, list(indexed), sqlite_where=None if where is None else sa.text(where))


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"


def upgrade() -> None:
    if not _is_sqlite():
        for table, columns in _new_columns().items():
            for column in columns:
                op.add_column(table, column)
        return
    new = _new_columns()
    _remake("workflow_runs", _run_columns(), *new["workflow_runs"])
    _remake("activity_executions", _activity_columns(), *new["activity_executions"])
    _remake("timers", _timer_columns(), *new["timers"])
    _remake("workers", _worker_columns(), *new["workers"])


def downgrade() -> None:
    if not _is_sqlite():
        for table, columns in _new_columns().items():
            for column in columns:
                op.drop_column(table, column.name)
        return
    _remake("workers", _worker_columns())
    _remake("timers", _timer_columns())
    _remake("activity_executions", _activity_columns())
    _remake("workflow_runs", _run_columns())
