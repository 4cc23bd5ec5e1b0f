"""Lifecycle events: who exports them to a sink, and how far the history of each run was exported."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "serverless_sinks",
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("since", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("held_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sink", name="pk_serverless_sinks"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "serverless_exports",
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sink", "run_id", name="pk_serverless_exports"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("serverless_exports")
    op.drop_table("serverless_sinks")
