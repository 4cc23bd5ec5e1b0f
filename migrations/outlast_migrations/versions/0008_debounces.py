"""Debounces: for each key the run that its calls go to, and an index of when the row may go."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from outlast_migrations.columns import integer_or_null

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "debounces",
        sa.Column("workflow_type", sa.Text(), nullable=False),
        sa.Column("debounce_key", sa.Text(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        integer_or_null("deadline_at"),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workflow_type", "debounce_key", name="pk_debounces"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_debounces_expiry", "debounces", ["expires_at"])


def downgrade() -> None:
    op.drop_table("debounces")
