"""The outbox: starts, signals and cancel requests in somebody's own transaction; on PostgreSQL functions that write it.

The functions are bound to the table when they are made, so they work whatever the search path of their caller is.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from outlast_migrations.columns import integer_or_null, text_or_null

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

CHECKS = {
    "kind": "kind IN ('start', 'signal', 'cancel')",
    "state": "state IN ('waiting', 'refused')",
    "workflow_id": "workflow_id <> ''",
    "name": "(kind = 'cancel') = (name IS NULL) AND name <> ''",
}
POSTGRESQL_CHECKS = {
    "args": "jsonb_typeof(args::jsonb) = 'array' OR jsonb_exists(args::jsonb, '$codec')",
    "options": "jsonb_typeof(options::jsonb) = 'object'",
    "timeouts": "(options::jsonb ->> 'start_delay')::numeric >= 0 "
    "AND (options::jsonb ->> 'run_timeout')::numeric >= 1 "
    "AND (options::jsonb ->> 'execution_timeout')::numeric >= 1 "
    "AND (options::jsonb ->> 'schedule_to_start_timeout')::numeric >= 1",
    "priority": "(options::jsonb ->> 'priority')::int BETWEEN 0 AND 9",
}
SQLITE_CHECKS = {
    "args": "json_type(args) = 'array' OR json_type(args, '$.$codec') IS NOT NULL",
    "options": "json_type(options) = 'object'",
    "timeouts": "json_extract(options, '$.start_delay') >= 0 "
    "AND json_extract(options, '$.run_timeout') >= 1 "
    "AND json_extract(options, '$.execution_timeout') >= 1 "
    "AND json_extract(options, '$.schedule_to_start_timeout') >= 1",
    "priority": "json_extract(options, '$.priority') BETWEEN 0 AND 9",
}

NOW_US = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
RING = "SELECT pg_notify('outlast', 'outbox') WHERE ring;"

FUNCTIONS = {
    "outlast_start(text, jsonb, text, text, text, text, int, numeric, numeric, numeric, timestamptz, text, jsonb, "
    "jsonb, bool)": f"""
CREATE FUNCTION outlast_start(
    workflow_type text, args jsonb DEFAULT '[]', id text DEFAULT NULL, task_queue text DEFAULT 'default',
    queue text DEFAULT NULL, partition_key text DEFAULT NULL, priority int DEFAULT NULL,
    delay_seconds numeric DEFAULT NULL, run_timeout_seconds numeric DEFAULT NULL,
    execution_timeout_seconds numeric DEFAULT NULL, deadline timestamptz DEFAULT NULL,
    duplicate_policy text DEFAULT 'return_existing', memo jsonb DEFAULT NULL, search_attributes jsonb DEFAULT NULL,
    ring bool DEFAULT false
) RETURNS text LANGUAGE sql BEGIN ATOMIC
    {RING}
    INSERT INTO outlast_outbox (kind, workflow_id, name, args, options, created_at)
    VALUES (
        'start', coalesce(id, gen_random_uuid()::text), workflow_type, args::text,
        (jsonb_strip_nulls(jsonb_build_object(
            'task_queue', task_queue, 'queue', queue, 'partition_key', partition_key, 'priority', priority,
            'start_delay', delay_seconds, 'run_timeout', run_timeout_seconds,
            'execution_timeout', execution_timeout_seconds, 'execution_deadline', deadline,
            'duplicate_policy', duplicate_policy))
         || CASE WHEN memo IS NULL THEN '{{}}'::jsonb ELSE jsonb_build_object('memo', memo) END
         || CASE WHEN search_attributes IS NULL THEN '{{}}'::jsonb
            ELSE jsonb_build_object('search_attributes', search_attributes) END)::text,
        {NOW_US}
    ) RETURNING workflow_id;
END""",
    "outlast_signal(text, text, jsonb, text, bool)": f"""
CREATE FUNCTION outlast_signal(
    workflow_id text, name text, args jsonb DEFAULT '[]', request_id text DEFAULT NULL, ring bool DEFAULT false
) RETURNS bigint LANGUAGE sql BEGIN ATOMIC
    {RING}
    INSERT INTO outlast_outbox (kind, workflow_id, name, args, options, created_at)
    VALUES (
        'signal', outlast_signal.workflow_id, outlast_signal.name, outlast_signal.args::text,
        jsonb_strip_nulls(jsonb_build_object('request_id', request_id))::text, {NOW_US}
    ) RETURNING outbox_id;
END""",
    "outlast_cancel(text, text, bool)": f"""
CREATE FUNCTION outlast_cancel(workflow_id text, reason text DEFAULT NULL, ring bool DEFAULT false)
RETURNS bigint LANGUAGE sql BEGIN ATOMIC
    {RING}
    INSERT INTO outlast_outbox (kind, workflow_id, options, created_at)
    VALUES (
        'cancel', outlast_cancel.workflow_id,
        jsonb_strip_nulls(jsonb_build_object('reason', outlast_cancel.reason))::text, {NOW_US}
    ) RETURNING outbox_id;
END""",
}


def upgrade() -> None:
    postgresql = op.get_context().dialect.name == "postgresql"
    checks = {**CHECKS, **(POSTGRESQL_CHECKS if postgresql else SQLITE_CHECKS)}
    op.create_table(
        "outlast_outbox",
        sa.Column(
            "outbox_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        text_or_null("name"),
        text_or_null("args"),
        sa.Column("options", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        integer_or_null("created_at"),
        sa.Column("state", sa.Text(), server_default=sa.text("'waiting'"), nullable=False),
        text_or_null("reason"),
        integer_or_null("refused_at"),
        *(sa.CheckConstraint(text, name=op.f(f"ck_outlast_outbox_{name}")) for name, text in checks.items()),
        sa.PrimaryKeyConstraint("outbox_id", name="pk_outlast_outbox"),
        sqlite_autoincrement=True,
    )
    where = sa.text("state = 'waiting'")
    op.create_index(
        "ix_outbox_waiting", "outlast_outbox", ["outbox_id"], sqlite_where=where, postgresql_where=where
    )
    where = sa.text("refused_at IS NOT NULL")
    op.create_index(
        "ix_outbox_refused", "outlast_outbox", ["refused_at"], sqlite_where=where, postgresql_where=where
    )
    op.create_index("ix_outbox_workflow_id", "outlast_outbox", ["workflow_id"])
    if postgresql:
        for text in FUNCTIONS.values():
            op.execute(text)


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        for signature in FUNCTIONS:
            op.execute(f"DROP FUNCTION {signature}")
    op.drop_table("outlast_outbox")
