"""The settings of connections to PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """The settings that every connection is opened with. An option of the same name in the URL wins.

    Keep the server's three timeouts below half a worker's lease (30 s by default), so that a lock or a query that hangs
    ends, and is tried again, while its owner is still alive. Zero turns one off.

    Attributes:
        connect_timeout_s: How long one host may take to answer, in seconds.
        lock_timeout_s: How long a statement waits for a row, in seconds.
        statement_timeout_s: How long a statement may take in all, in seconds.
        idle_in_transaction_timeout_s: How long a transaction may be idle between two statements, in seconds.
        keepalive_idle_s: After how many seconds of silence TCP probes the other side, here and on the server.
        prepare_threshold: How often a statement runs before the server keeps its plan. ``None`` means never: a pooler
            that gives each transaction another session needs that.
        prepared_max: How many plans a connection keeps. The journal's statements differ by their number of rows.
        skip_locked: Whether claims skip rows that another transaction holds (``SKIP LOCKED``); ``None`` asks the
            server. Without it a claim waits for that transaction, then takes what is still free.
    """

    connect_timeout_s: int = 10
    lock_timeout_s: float = 5.0
    statement_timeout_s: float = 12.0
    idle_in_transaction_timeout_s: float = 12.0
    keepalive_idle_s: int = 10
    prepare_threshold: int | None = 3
    prepared_max: int = 512
    skip_locked: bool | None = None
