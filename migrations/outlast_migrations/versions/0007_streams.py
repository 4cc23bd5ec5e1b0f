"""Streams: what a chain publishes while it runs, item by item, and how far each stream has come."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from outlast_migrations.columns import integer_or_null

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "streams",
        sa.Column("first_run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        integer_or_null("closed_at"),
        sa.PrimaryKeyConstraint("first_run_id", "name", name="pk_streams"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "stream_items",
        sa.Column("first_run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("item_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        integer_or_null("seq"),
        integer_or_null("activity_id"),
        integer_or_null("attempt"),
        sa.PrimaryKeyConstraint("first_run_id", "name", "item_offset", name="pk_stream_items"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("stream_items")
    op.drop_table("streams")
