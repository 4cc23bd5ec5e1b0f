"""Deliveries: an alert names the workflows that bring it to its channels."""

from __future__ import annotations

from outlast_migrations.columns import add_columns, drop_columns, text_or_null

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_columns("alerts", text_or_null("deliveries"))


def downgrade() -> None:
    drop_columns("alerts", "deliveries")
