"""Events: CloudEvents that were published, and which runs of documents listen to what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "serverless_events",
        sa.Column(
            "event_key",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("routed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("event_key", name="pk_serverless_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_serverless_events_once", "serverless_events", ["source", "id"], unique=True)
    op.create_index("ix_serverless_events_received", "serverless_events", ["received_at"])
    waiting = sa.text("routed_at IS NULL")
    op.create_index(
        "ix_serverless_events_waiting",
        "serverless_events",
        ["event_key"],
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
    op.create_table(
        "serverless_subscriptions",
        sa.Column("first_run_id", sa.Text(), nullable=False),
        sa.Column("execution_id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("paths", sa.Text(), nullable=False),
        sa.Column("key_hash", sa.Text(), nullable=False),
        sa.Column("after_key", sa.BigInteger(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "first_run_id", "execution_id", "position", name="pk_serverless_subscriptions"
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_serverless_subscriptions_key", "serverless_subscriptions", ["event_type", "paths", "key_hash"]
    )


def downgrade() -> None:
    op.drop_table("serverless_subscriptions")
    op.drop_table("serverless_events")
