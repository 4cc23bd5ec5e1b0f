"""The tables. The migrations own the schema; this module is what they must lead to (a test compares them).

Times are integers: microseconds since the epoch, UTC. Payloads are JSON text. Hot tables have no foreign keys. The
indexes of the hot path are partial, so they hold no closed rows.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)

from outlast_store.schema.indexes import on_postgresql, partial

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


_BYTES = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that PostgreSQL, too, compares by its bytes, as SQLite compares all text."""


def _table(name: str, *items: Column[object] | Index) -> Table:
    return Table(name, metadata, *items, sqlite_with_rowid=False)


def _key(name: str, kind: type[Text] | type[BigInteger] | type[Integer] = Text) -> Column[object]:
    return Column(name, kind, primary_key=True, nullable=False, autoincrement=False)


def _text(name: str) -> Column[object]:
    return Column(name, Text, nullable=False)


def _text_or_null(name: str) -> Column[object]:
    return Column(name, Text, nullable=True)


def _bytes_or_null(name: str) -> Column[object]:
    return Column(name, _BYTES, nullable=True)


def _int(name: str) -> Column[object]:
    return Column(name, BigInteger, nullable=False)


def _int_or_null(name: str) -> Column[object]:
    return Column(name, BigInteger, nullable=True)


def _flag(name: str) -> Column[object]:
    return Column(name, Boolean, nullable=False)


workflow_instances = _table(
    "workflow_instances",
    _key("workflow_id"),
    _text("workflow_type"),
    _text("current_run_id"),
    _int("run_count"),
    _int("created_at"),
)

workflow_runs = _table(
    "workflow_runs",
    _key("run_id"),
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
    _text_or_null("summary"),
    _text_or_null("progress"),
    _text_or_null("queue"),
    _bytes_or_null("partition_key"),
    _int_or_null("queued_at"),
    _text_or_null("slot_queue"),
    _int_or_null("start_deadline_at"),
    _text_or_null("alerts"),
    # The type stands before the time, so that a claim passes over the types that its worker lacks.
    partial(
        "ix_runs_claimable",
        "task_queue",
        "workflow_type",
        "wake_at",
        where="wake_at IS NOT NULL AND owner_id IS NULL",
    ),
    partial("ix_runs_owned", "owner_id", "wake_at", where="owner_id IS NOT NULL"),
    # With the keys, so that what is due at one instant, however much it is, is read in pages (SQLite adds them anyway).
    partial("ix_runs_deadline", "next_deadline_at", "run_id", where="next_deadline_at IS NOT NULL"),
    partial("ix_runs_cascade", "cascade_at", where="cascade_at IS NOT NULL"),
    partial("ix_runs_children", "parent_run_id", where="parent_run_id IS NOT NULL AND closed_at IS NULL"),
    partial(
        "ix_runs_line",
        "queue",
        "partition_key",
        "priority",
        "queued_at",
        "run_id",
        where="queued_at IS NOT NULL",
    ),
    partial("ix_runs_delayed", "queue", "partition_key", where="status = 'queued' AND queued_at IS NULL"),
    # For listing, as those at the end.
    partial("ix_runs_queue", "queue", "run_id", where="queue IS NOT NULL"),
    # Slots are counted in these alone: without the status, no row needs to be read.
    partial("ix_runs_slots", "slot_queue", "partition_key", "owner_id", where="slot_queue IS NOT NULL"),
    partial("ix_runs_slot_owner", "slot_queue", "owner_id", "wake_at", where="slot_queue IS NOT NULL"),
    partial("ix_runs_open", "run_id", where="closed_at IS NULL"),
    partial(
        "ix_runs_trouble",
        "status",
        "run_id",
        where="status IN ('failed', 'timed_out', 'cancelled', 'terminated')",
    ),
    # For listing: apart from ix_runs_open, a healthy run is in these two only.
    Index("ix_runs_type", "workflow_type", "run_id"),
    on_postgresql(
        Index("ix_runs_workflow_id", "workflow_id", "run_id"),
        postgresql_ops={"workflow_id": "text_pattern_ops"},
    ),
    partial("ix_runs_attention", "attention", "run_id", where="attention IS NOT NULL"),
)

history_events = _table(
    "history_events",
    _key("run_id"),
    _key("seq", BigInteger),
    _text("type"),
    _int("recorded_at"),
    _text("payload"),
)

activity_executions = _table(
    "activity_executions",
    _key("run_id"),
    _key("activity_id", BigInteger),
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
    _text_or_null("summary"),
    _text_or_null("queue"),
    _bytes_or_null("partition_key"),
    partial(
        "ix_activities_claimable",
        "task_queue",
        "activity_type",
        "priority",
        "available_at",
        where="status = 'pending' AND queue IS NULL",
    ),
    partial(
        "ix_activities_line",
        "queue",
        "partition_key",
        "priority",
        "available_at",
        where="status = 'pending' AND queue IS NOT NULL",
    ),
    partial(
        "ix_activities_slots",
        "queue",
        "partition_key",
        "claimed_by",
        "status",
        where="status = 'running' AND queue IS NOT NULL",
    ),
    partial("ix_activities_claimed", "claimed_by", where="status = 'running'"),
    partial(
        "ix_activities_deadline",
        "next_deadline_at",
        "run_id",
        "activity_id",
        where="next_deadline_at IS NOT NULL",
    ),
)

activity_attempts = _table(
    "activity_attempts",
    _key("run_id"),
    _key("activity_id", BigInteger),
    _key("attempt", BigInteger),
    _text_or_null("worker_id"),
    _int_or_null("started_at"),
    _int("ended_at"),
    _text("outcome"),
    _text_or_null("timeout_kind"),
    _text_or_null("failure"),
)

workflow_failures = _table(
    "workflow_failures",
    _key("failure_id"),
    _text("run_id"),
    _int_or_null("event_seq"),
    _int("recorded_at"),
    _text("source_kind"),
    _text_or_null("source_id"),
    _text("failure_category"),
    _text("propagation_kind"),
    _text("exception_class"),
    _text("message"),
    _text_or_null("details"),
    _text_or_null("timeout_kind"),
    _int_or_null("deadline_at"),
    Index("ix_failures_run", "run_id", "failure_id"),
)

timers = _table(
    "timers",
    _key("run_id"),
    _key("timer_id", BigInteger),
    _int("fire_at"),
    _text_or_null("summary"),
    Index("ix_timers_fire_at", "fire_at", "run_id", "timer_id"),
)

workflow_requests = _table(
    "workflow_requests",
    _key("first_run_id"),
    _key("kind"),
    _key("request_id"),
    _text("run_id"),
    _text("name"),
    _text("input"),
    _text("state"),
    _text_or_null("answer"),
    _int_or_null("answer_seq"),
    _int("created_at"),
    _int_or_null("expires_at"),
    partial("ix_requests_open", "run_id", where="state = 'open'"),
    partial("ix_requests_expiry", "expires_at", where="expires_at IS NOT NULL"),
)

search_attributes = _table(
    "search_attributes",
    _key("run_id"),
    _key("name"),
    Column("value", _BYTES, primary_key=True, nullable=False),
    Index("ix_search_attributes_value", "name", "value", "run_id"),
)

workers = _table(
    "workers",
    _key("worker_id"),
    _text("host"),
    _int("pid"),
    _text("task_queues"),
    _text("types"),
    _text_or_null("build_id"),
    _int("started_at"),
    _int("lease_expires_at"),
    _int_or_null("lease_duration"),
    Index("ix_workers_lease", "lease_expires_at"),
)

queues = _table(
    "queues",
    _key("queue"),
    _int_or_null("concurrency"),
    _int_or_null("worker_concurrency"),
    _int_or_null("rate_limit"),
    _int_or_null("rate_per"),
    _int_or_null("partition_concurrency"),
    _int_or_null("partition_worker_concurrency"),
    _int_or_null("partition_rate_limit"),
    _int_or_null("partition_rate_per"),
    _int_or_null("paused_at"),
    _text_or_null("note"),
    _int("created_at"),
    _int("updated_at"),
    _int_or_null("deleted_at"),
    _bytes_or_null("cursor"),
    _int_or_null("cycle_at"),
    _text_or_null("rate_log"),
)

queue_partitions = _table(
    "queue_partitions",
    _key("queue"),
    Column("partition_key", _BYTES, primary_key=True, nullable=False),
    _text("rate_log"),
    _int("expires_at"),
    Index("ix_queue_partitions_expiry", "expires_at"),
)

debounces = _table(
    "debounces",
    _key("workflow_type"),
    _key("debounce_key"),
    _text("workflow_id"),
    _text("run_id"),
    _int_or_null("deadline_at"),
    _int("calls"),
    _int("expires_at"),
    Index("ix_debounces_expiry", "expires_at"),
)

schedules = _table(
    "schedules",
    _key("schedule_id"),
    _int("version"),
    _text("workflow_type"),
    _text("task_queue"),
    _text("input"),
    _text("action"),
    _text("spec"),
    _text("overlap"),
    _text("catch_up"),
    _int("catch_up_window"),
    _flag("pause_on_failure"),
    _int_or_null("paused_at"),
    _text_or_null("note"),
    _int_or_null("max_runs"),
    _int_or_null("remaining_runs"),
    _int("decided_until"),
    _int_or_null("last_slot_at"),
    _int_or_null("next_look_at"),
    _text_or_null("buffered"),
    _text_or_null("last_workflow_id"),
    _text_or_null("last_first_run_id"),
    _text_or_null("failed_run_id"),
    _text_or_null("recent"),
    _int("started"),
    _int("skipped"),
    _int("missed"),
    _int("created_at"),
    _int("updated_at"),
    partial("ix_schedules_look", "next_look_at", where="next_look_at IS NOT NULL"),
)

OUTBOX_CHECKS: Final = {
    "kind": "kind IN ('start', 'signal', 'cancel')",
    "state": "state IN ('waiting', 'refused')",
    "workflow_id": "workflow_id <> ''",
    "name": "(kind = 'cancel') = (name IS NULL) AND name <> ''",
}
"""What both databases refuse to take into the outbox, whoever writes it."""

OUTBOX_CHECKS_POSTGRESQL: Final = {
    "args": "jsonb_typeof(args::jsonb) = 'array' OR jsonb_exists(args::jsonb, '$codec')",
    "options": "jsonb_typeof(options::jsonb) = 'object'",
    "timeouts": "(options::jsonb ->> 'start_delay')::numeric >= 0 "
    "AND (options::jsonb ->> 'run_timeout')::numeric >= 1 "
    "AND (options::jsonb ->> 'execution_timeout')::numeric >= 1 "
    "AND (options::jsonb ->> 'schedule_to_start_timeout')::numeric >= 1",
    "priority": "(options::jsonb ->> 'priority')::int BETWEEN 0 AND 9",
}

OUTBOX_CHECKS_SQLITE: Final = {
    "args": "json_type(args) = 'array' OR json_type(args, '$.$codec') IS NOT NULL",
    "options": "json_type(options) = 'object'",
    "timeouts": "json_extract(options, '$.start_delay') >= 0 "
    "AND json_extract(options, '$.run_timeout') >= 1 "
    "AND json_extract(options, '$.execution_timeout') >= 1 "
    "AND json_extract(options, '$.schedule_to_start_timeout') >= 1",
    "priority": "json_extract(options, '$.priority') BETWEEN 0 AND 9",
}

# A table of the application may well be called outbox, and both live in one schema. Its key is a number that the
# database gives: rows of one transaction have the order of their statements, whoever wrote them.
outbox = Table(
    "outlast_outbox",
    metadata,
    Column(
        "outbox_id",
        BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
        nullable=False,
    ),
    _text("kind"),
    _text("workflow_id"),
    _text_or_null("name"),
    _text_or_null("args"),
    Column("options", Text, nullable=False, server_default=text("'{}'")),
    # Where it is null the row counts from when it was found.
    _int_or_null("created_at"),
    Column("state", Text, nullable=False, server_default=text("'waiting'")),
    _text_or_null("reason"),
    _int_or_null("refused_at"),
    *(CheckConstraint(text, name=name) for name, text in OUTBOX_CHECKS.items()),
    *(
        CheckConstraint(check, name=name).ddl_if(dialect=dialect)
        for dialect, checks in (("postgresql", OUTBOX_CHECKS_POSTGRESQL), ("sqlite", OUTBOX_CHECKS_SQLITE))
        for name, check in checks.items()
    ),
    partial("ix_outbox_waiting", "outbox_id", where="state = 'waiting'"),
    partial("ix_outbox_refused", "refused_at", where="refused_at IS NOT NULL"),
    Index("ix_outbox_workflow_id", "workflow_id"),
    sqlite_autoincrement=True,
)

streams = _table(
    "streams",
    _key("first_run_id"),
    _key("name"),
    _int("next_offset"),
    _int("bytes"),
    _int("version"),
    _int_or_null("closed_at"),
)

stream_items = _table(
    "stream_items",
    _key("first_run_id"),
    _key("name"),
    _key("item_offset", BigInteger),
    _text("value"),
    _int("written_at"),
    _text("run_id"),
    _int_or_null("seq"),
    _int_or_null("activity_id"),
    _int_or_null("attempt"),
)

serverless_documents = _table(
    "serverless_documents",
    _key("namespace"),
    _key("name"),
    _key("version"),
    _text("digest"),
    _text("dsl"),
    _text("definition"),
    _text("source"),
    _int("registered_at"),
)

# Its key is a number that the database gives: an event that was acknowledged before another was sent comes before it.
serverless_events = Table(
    "serverless_events",
    metadata,
    Column(
        "event_key",
        BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
        nullable=False,
    ),
    _text("source"),
    _text("id"),
    _text("event_type"),
    _text("document"),
    _int("received_at"),
    _int_or_null("routed_at"),
    Index("ix_serverless_events_once", "source", "id", unique=True),
    Index("ix_serverless_events_received", "received_at"),
    partial("ix_serverless_events_waiting", "event_key", where="routed_at IS NULL"),
    sqlite_autoincrement=True,
)

serverless_subscriptions = _table(
    "serverless_subscriptions",
    _key("first_run_id"),
    _key("execution_id"),
    _key("position", BigInteger),
    _text("workflow_id"),
    _text("event_type"),
    _text("paths"),
    _text("key_hash"),
    _int("after_key"),
    _int("opened_at"),
    Index("ix_serverless_subscriptions_key", "event_type", "paths", "key_hash"),
)

# Who exports lifecycle events to a sink, and from which run on it looks for new ones.
serverless_sinks = _table(
    "serverless_sinks",
    _key("sink"),
    _text("since"),
    _text("holder"),
    _int("held_until"),
)

# Up to which event the history of a run was exported to a sink.
serverless_exports = _table(
    "serverless_exports",
    _key("sink"),
    _key("run_id"),
    _int("seq"),
)

alert_timers = _table(
    "alert_timers",
    _key("run_id"),
    _key("activity_id", BigInteger),
    _key("kind"),
    _key("mark"),
    _int("attempt"),
    _int("due_at"),
    _int_or_null("deadline_at"),
    Index("ix_alert_timers_due", "due_at", "run_id", "activity_id", "kind", "mark"),
)

alerts = _table(
    "alerts",
    _key("alert_id"),
    _text("scope"),
    _int("activity_id"),
    _int("attempt"),
    _text("kind"),
    _text("mark"),
    _text("workflow_id"),
    _text("run_id"),
    _text("workflow_type"),
    _text_or_null("activity_type"),
    _text("task_queue"),
    _int_or_null("deadline_at"),
    _int("due_at"),
    _int("fired_at"),
    _int_or_null("acknowledged_at"),
    _text_or_null("acknowledged_by"),
    _text_or_null("deliveries"),
    # Each mark fires once: of a chain, of a run, or of an attempt of an activity.
    Index("ix_alerts_once", "scope", "activity_id", "attempt", "kind", "mark", unique=True),
    Index("ix_alerts_run", "run_id"),
    Index("ix_alerts_workflow_id", "workflow_id", "alert_id"),
    partial("ix_alerts_open", "alert_id", where="acknowledged_at IS NULL"),
)

journals = _table(
    "journals",
    _key("journal_id"),
    _int("batch_no"),
)

TABLES: tuple[Table, ...] = tuple(metadata.sorted_tables)
