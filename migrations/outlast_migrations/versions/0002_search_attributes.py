"""Search attributes: a run's own in its row, typed values in an index; and an index of workflow ids."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_INDEXES = (
    "ix_runs_attention",
    "ix_runs_cascade",
    "ix_runs_children",
    "ix_runs_claimable",
    "ix_runs_deadline",
    "ix_runs_open",
    "ix_runs_owned",
    "ix_runs_trouble",
    "ix_runs_type",
)


def _columns() -> tuple[sa.Column[object], ...]:
    """Return the columns of workflow_runs in version 0001."""
    return (
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
    )


def _partial_index(name: str, table: str, columns: list[str], *, where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _index_runs() -> None:
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


def _remake_runs(*more: sa.Column[object]) -> None:
    """Copy the runs to a table with other columns, because SQLite's ALTER TABLE leaves a schema unlike a fresh one."""
    for name in _INDEXES:
        op.drop_index(name, "workflow_runs")
    op.rename_table("workflow_runs", "workflow_runs_before")
    op.create_table(
        "workflow_runs",
        *_columns(),
        *more,
        sa.PrimaryKeyConstraint("run_id", name="pk_workflow_runs"),
        sqlite_with_rowid=False,
    )
    names = ", ".join(column.name for column in _columns())
    op.execute(f"INSERT INTO workflow_runs ({names}) SELECT {names} FROM workflow_runs_before")
    op.drop_table("workflow_runs_before")
    _index_runs()


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"


def upgrade() -> None:
    if _is_sqlite():
        _remake_runs(sa.Column("search_attributes", sa.Text(), nullable=True))
    else:
        op.add_column("workflow_runs", sa.Column("search_attributes", sa.Text(), nullable=True))
    op.create_index(
        "ix_runs_workflow_id",
        "workflow_runs",
        ["workflow_id", "run_id"],
        postgresql_ops={"workflow_id": "text_pattern_ops"},
    )
    op.drop_table("search_attributes")  # nothing has written to it
    op.create_table(
        "search_attributes",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", "value", name="pk_search_attributes"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_search_attributes_value", "search_attributes", ["name", "value", "run_id"])


def downgrade() -> None:
    op.drop_index("ix_runs_workflow_id", "workflow_runs")
    op.drop_table("search_attributes")
    op.create_table(
        "search_attributes",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", name="pk_search_attributes"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_search_attributes_value", "search_attributes", ["name", "value", "run_id"])
    if _is_sqlite():
        _remake_runs()
    else:
        op.drop_column("workflow_runs", "search_attributes")
