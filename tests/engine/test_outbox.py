"""Starts, signals and cancel requests in a user's own transaction: there if it commits, and not if it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outlast import Client, SignalTo, StartOptions, Worker, activity, workflow
from outlast.blocking import Client as BlockingClient
from outlast.errors import (
    InvalidOptionError,
    JournalClosedError,
    OutboxRefusedError,
    OutboxRowNotFoundError,
    QueueNotFoundError,
    StartNotCommittedError,
    StoreError,
    UnstorableValueError,
    WorkflowAlreadyStartedError,
    WorkflowCancelledError,
    WorkflowClosedError,
    WorkflowNotFoundError,
)
from outlast_store.reads.outbox import read_page
from outlast_store.reads.runs import find_instance
from outlast_store.schema.rows import OutboxRow
from outlast_workflow.primitives.times import from_iso


@pytest.fixture
def anyio_backend() -> str:
    """Transactions of others are not in virtual time."""
    return "asyncio"


@activity.defn(start_to_close_timeout=30)
async def double(number: int) -> int:
    return 2 * number


@workflow.defn
class Doubling:
    @workflow.run
    async def run(self, number: int) -> int:
        return await double(number)


@workflow.defn
class Collecting:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @workflow.run
    async def run(self, wanted: int) -> list[str]:
        await workflow.wait_condition(lambda: len(self.seen) >= wanted)
        return self.seen

    @workflow.signal
    def add(self, item: str) -> None:
        self.seen.append(item)


WORKFLOWS: list[Any] = [Doubling, Collecting]


def own_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def own_engine(shared_url: str) -> Iterator[Engine]:
    """The user's engine, on the same database."""
    made = create_engine(own_url(shared_url))
    yield made
    made.dispose()


@pytest.fixture
async def client(shared_url: str) -> AsyncIterator[Client]:
    async with Client.connect(shared_url) as client:
        client.runtime.journal.committer.connect()
        yield client


@pytest.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    async with Worker(client, workflows=WORKFLOWS, activities=[double]) as worker:
        yield worker


async def rows(client: Client) -> list[OutboxRow]:
    return await client.runtime.read(read_page, 0, 1000, None)


@pytest.fixture
async def orders(client: Client, own_engine: Engine) -> None:
    """A table of the user's."""
    with own_engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id TEXT PRIMARY KEY)"))


def insert(connection: Connection | Session, order: str) -> None:
    connection.execute(text("INSERT INTO orders (id) VALUES (:id)"), {"id": order})


def orders_in(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return [row[0] for row in connection.execute(text("SELECT id FROM orders ORDER BY id"))]


async def test_a_start_is_part_of_the_transaction_that_commits(
    client: Client, worker: Worker, own_engine: Engine, orders: None
) -> None:
    with own_engine.begin() as connection:
        insert(connection, "o-1")
        handle = await client.start(Doubling.run, 21, id="o-1", connection=connection)
    assert await handle.result() == 42
    assert orders_in(own_engine) == ["o-1"]
    assert await rows(client) == []
    assert (await handle.describe()).run.run_id == handle.run_id
    assert not handle.existed


async def test_a_start_is_found_that_is_applied_between_the_reads_of_whoever_looks_for_it(
    client: Client, own_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_engine.begin() as connection:
        await client.start(Doubling.run, 21, id="o-1", connection=connection)
    runtime = client.runtime
    read = runtime.read

    async def read_and_apply(reader: Any, *args: Any, **options: Any) -> Any:
        found = await read(reader, *args, **options)
        if reader is find_instance:
            await client.outbox.drain()
        return found

    monkeypatch.setattr(runtime, "read", read_and_apply)
    assert (await client.handle("o-1").describe()).run.run_id


async def test_text_with_nul_does_not_abort_the_users_transaction(
    client: Client, worker: Worker, own_engine: Engine, orders: None
) -> None:
    with own_engine.begin() as connection:
        insert(connection, "o-1")
        handle = await client.start(Collecting.run, 1, id="o-1", connection=connection)
        if client.runtime.database.backend == "postgresql":
            with pytest.raises(UnstorableValueError, match="NUL"):
                await handle.signal(Collecting.add, "a\x00b", connection=connection)
        await handle.signal(Collecting.add, r"a\u0000b", connection=connection)
    assert await handle.result() == [r"a\u0000b"]
    assert orders_in(own_engine) == ["o-1"]


async def test_nothing_is_left_of_a_transaction_that_is_rolled_back(
    client: Client, worker: Worker, own_engine: Engine, orders: None
) -> None:
    with own_engine.connect() as connection:
        insert(connection, "o-1")
        handle = await client.start(Doubling.run, 21, id="o-1", connection=connection)
        connection.rollback()
    assert orders_in(own_engine) == []
    assert await rows(client) == []
    with pytest.raises(StartNotCommittedError, match="has not committed"):
        await handle.result()
    with pytest.raises(WorkflowNotFoundError):
        await client.handle("o-1").describe()


async def test_what_is_not_committed_is_not_seen_and_holds_nobody_up(
    client: Client, worker: Worker, own_engine: Engine
) -> None:
    other = await client.start(Collecting.run, 2, id="other")
    with own_engine.connect() as connection:
        handle = await client.start(Doubling.run, 21, id="o-1", connection=connection)
        await other.signal(Collecting.add, "in a transaction", connection=connection)
        with pytest.raises(StartNotCommittedError):
            await handle.describe()
        assert await client.outbox.list() == []
        # The engine writes to the same workflow meanwhile. SQLite has one writer, so there it waits for its turn.
        writing = asyncio.ensure_future(other.signal(Collecting.add, "at once"))
        if connection.dialect.name == "postgresql":
            await writing
            assert await client.execute(Doubling.run, 1) == 2
        connection.commit()
    await writing
    assert sorted(await other.result()) == ["at once", "in a transaction"]
    assert await handle.result() == 42


async def test_a_start_comes_before_its_signals_which_keep_their_order(
    client: Client, worker: Worker, own_engine: Engine
) -> None:
    with own_engine.begin() as connection:
        handle = await client.start(Collecting.run, 3, id="c", connection=connection)
        await handle.signal(Collecting.add, "a", connection=connection)
        await client.signal("c", "add", "b", connection=connection)
        await client.handle("c").signal(Collecting.add("c"), connection=connection)
    assert await handle.result() == ["a", "b", "c"]


async def test_a_signal_with_a_start(client: Client, worker: Worker, own_engine: Engine) -> None:
    with own_engine.begin() as connection:
        for item in ("a", "b"):
            await client.signal_with_start(
                Collecting.run, 2, signal=Collecting.add(item), id="c", connection=connection
            )
    assert await client.handle("c").result() == ["a", "b"]


async def test_signals_with_a_key_arrive_once(client: Client, worker: Worker, own_engine: Engine) -> None:
    handle = await client.start(Collecting.run, 2, id="c")
    for _ in range(2):
        with own_engine.begin() as connection:
            await handle.signal(Collecting.add, "once", request_id="k", connection=connection)
    await client.outbox.drain()
    await handle.signal(Collecting.add, "again", request_id="k")
    await handle.signal(Collecting.add, "end")
    assert await handle.result() == ["once", "end"]
    with own_engine.begin() as connection:
        # The chain has seen the key, so this is no error although it has ended.
        await handle.signal(Collecting.add, "once", request_id="k", connection=connection)
    assert await client.outbox.drain() <= 1
    assert await rows(client) == []


async def test_many_signals_are_written_together_or_not_at_all(
    client: Client, worker: Worker, own_engine: Engine
) -> None:
    first = await client.start(Collecting.run, 2, id="first")
    with own_engine.begin() as connection:
        second = await client.start(Collecting.run, 1, id="second", connection=connection)
        with pytest.raises(WorkflowNotFoundError):
            await client.signal_many(
                [SignalTo("first", "add", "never"), SignalTo("nobody", "add", "never")], connection=connection
            )
        with pytest.raises(InvalidOptionError, match="forks"):
            await client.signal_many([SignalTo("first", "add", "x")], to_forks=True, connection=connection)
        both = [
            SignalTo("first", Collecting.add, "a"),
            SignalTo("second", "add", "b"),
            SignalTo("first", "add", "c", request_id="k"),
        ]
        assert await client.signal_many(both, connection=connection) == ["first", "second"]
    assert (await first.result(), await second.result()) == (["a", "c"], ["b"])


async def test_a_cancel_request_is_part_of_the_transaction(
    client: Client, worker: Worker, own_engine: Engine
) -> None:
    handle = await client.start(Collecting.run, 1, id="c")
    with own_engine.connect() as connection:
        await handle.cancel("no", connection=connection)
        connection.rollback()
        await handle.cancel("order o-1 was withdrawn", connection=connection)
        connection.commit()
    with pytest.raises(WorkflowCancelledError, match="order o-1 was withdrawn"):
        await handle.result()


async def test_sessions_in_every_form(client: Client, worker: Worker, own_engine: Engine) -> None:
    with Session(own_engine) as session, session.begin():
        first = await client.start(Doubling.run, 1, connection=session)
    scoped = scoped_session(sessionmaker(own_engine))
    second = await client.start(Doubling.run, 2, connection=scoped)
    scoped.commit()
    scoped.remove()
    assert (await first.result(), await second.result()) == (2, 4)


async def test_savepoints_count_for_what_is_released(
    client: Client, worker: Worker, own_engine: Engine
) -> None:
    if own_engine.dialect.name == "sqlite":
        # The driver begins transactions late unless it is told not to; SQLAlchemy documents this remedy.
        @event.listens_for(own_engine, "connect")
        def no_begin(connection: Any, _record: Any) -> None:
            connection.isolation_level = None

        @event.listens_for(own_engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN")

    with Session(own_engine) as session, session.begin():
        kept = await client.start(Doubling.run, 1, id="kept", connection=session)
        nested = session.begin_nested()
        await client.start(Doubling.run, 2, id="dropped", connection=session)
        nested.rollback()
    assert await kept.result() == 2
    with pytest.raises(WorkflowNotFoundError):
        await client.handle("dropped").result()


async def test_the_blocking_client_uses_the_connection_in_its_callers_thread(
    client: Client, worker: Worker, shared_url: str, own_engine: Engine
) -> None:
    def calls() -> list[Any]:
        with BlockingClient.connect(shared_url) as blocking:
            with own_engine.begin() as connection:
                handle = blocking.start(Collecting.run, 2, id="c", connection=connection)
                handle.signal(Collecting.add, "a", connection=connection)
                blocking.signal("c", "add", "b", connection=connection)
            with Session(own_engine) as session, session.begin():
                other = blocking.start(Collecting.run, 1, id="d", connection=session)
                other.cancel("because", connection=session)
            with pytest.raises(WorkflowCancelledError):
                other.result()
            assert blocking.outbox.list() == []
            wrong: Any = object()
            with pytest.raises(InvalidOptionError, match="connection must be a SQLAlchemy"):
                blocking.start(Doubling.run, 1, connection=wrong)
            return handle.result()

    assert await asyncio.to_thread(calls) == ["a", "b"]


async def test_a_plain_handle_finds_a_start_that_waits(client: Client, own_engine: Engine) -> None:
    """Nobody watches here: whoever asks for the workflow applies its start."""
    with own_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO outlast_outbox (kind, workflow_id, name, args) "
                "VALUES ('start', 'w', 'Collecting', '[1]')"
            )
        )
    assert (await client.handle("w").describe()).workflow_type == "Collecting"
    with own_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO outlast_outbox (kind, workflow_id, name, args) "
                "VALUES ('start', 'v', 'Collecting', '[1]')"
            )
        )
    await client.handle("v").signal("add", "x")
    assert await rows(client) == []


async def test_a_close_is_quiet_while_the_process_is_about_to_look(
    shared_url: str, own_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client.connect(shared_url) as client:
        client.runtime.journal.committer.connect()
        with own_engine.begin() as connection:
            await client.start(Doubling.run, 4, id="d-1", connection=connection)
        # The loop hears of the commit, and the look that follows waits its millisecond.
        await asyncio.sleep(0)
        looks = [task for task in asyncio.all_tasks() if task.get_name() == "outlast-outbox"]
        runtime = client.runtime
    assert len(looks) == 1
    await asyncio.wait(looks)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    for read in (runtime.read, runtime.read_aside):
        with pytest.raises(JournalClosedError):
            await read(read_page, 0, 1, None)


async def test_deadlines_count_from_the_call(client: Client, own_engine: Engine) -> None:
    options = StartOptions(execution_timeout=100, run_timeout=50, start_delay=10)
    with own_engine.begin() as connection:
        handle = await client.start(Doubling.run, 1, options=options, connection=connection)
    [row] = await rows(client)
    assert row.created_at is not None
    await client.outbox.drain()
    described = (await handle.describe()).run
    called = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=row.created_at)
    assert described.created_at == called
    assert described.execution_deadline_at == called + timedelta(seconds=100)
    assert described.run_deadline_at == called + timedelta(seconds=60)


async def test_a_start_has_every_option(client: Client, own_engine: Engine) -> None:
    await client.queues.define("mails", concurrency=1)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    options = StartOptions(
        execution_timeout=1000,
        run_timeout=500,
        memo={"a": [1, None]},
        search_attributes={"customer": "ada", "tags": ["x", "y"], "at": at, "n": 5},
        priority=1,
        summary="for ada",
        queue="mails",
        partition_key="t7",
        schedule_to_start_timeout=30,
        duplicate_policy="reject_duplicate",
    )
    with own_engine.begin() as connection:
        through = await client.start(
            Doubling.run, 1, id="a", task_queue="t", options=options, connection=connection
        )
    direct = await client.start(Doubling.run, 1, id="b", task_queue="t", options=options)
    histories = []
    for handle in (through, direct):
        [started] = [event async for event in handle.history()]
        created = from_iso(started.payload["execution_deadline_at"]) - 1_000_000_000
        histories.append(
            {
                name: value
                for name, value in started.payload.items()
                if name not in ("workflow_id", "first_run_id", "seed", "execution_deadline_at")
            }
        )
        assert created == from_iso((await handle.describe()).run.created_at.isoformat())
    assert histories[0] == histories[1]
    assert (await through.describe()).run.search_attributes == options.search_attributes


async def test_what_can_be_refused_is_refused_at_the_call(client: Client, own_engine: Engine) -> None:
    open_one = await client.start(Collecting.run, 1, id="open")
    closed = await client.start(Collecting.run, 1, id="closed")
    await closed.terminate()
    with own_engine.begin() as connection:
        with pytest.raises(WorkflowAlreadyStartedError):
            await client.start(Collecting.run, 1, id="open", connection=connection)
        reject = StartOptions.reject_duplicate()
        with pytest.raises(WorkflowAlreadyStartedError):
            await client.start(Collecting.run, 1, id="closed", options=reject, connection=connection)
        with pytest.raises(QueueNotFoundError):
            await client.start(
                Collecting.run, 1, options=StartOptions(queue="nobodys"), connection=connection
            )
        with pytest.raises(WorkflowClosedError):
            await closed.signal(Collecting.add, "x", connection=connection)
        with pytest.raises(WorkflowClosedError):
            await closed.cancel(connection=connection)
        with pytest.raises(WorkflowNotFoundError):
            await client.handle("nobody").cancel(connection=connection)
        with pytest.raises(InvalidOptionError, match="reason"):
            await open_one.cancel("\x00", connection=connection)
        with pytest.raises(InvalidOptionError, match="execute waits for the result"):
            await client.execute("Doubling", 1, connection=connection)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        await client.start(Collecting.run, 1, id="twice", connection=connection)
        with pytest.raises(WorkflowAlreadyStartedError, match="in the outbox"):
            await client.start(Collecting.run, 1, id="twice", connection=connection)
    assert [row.workflow_id for row in await rows(client)] == ["twice"]


async def test_connections_that_cannot_be_used(
    client: Client, own_engine: Engine, tmp_path: Any, request: pytest.FixtureRequest
) -> None:
    async def refused(connection: Any, message: str) -> None:
        with pytest.raises(InvalidOptionError, match=message) as caught:
            await client.start(Doubling.run, 1, connection=connection)
        assert caught.value.field == "connection"

    await refused(own_engine, "must be a SQLAlchemy Connection or Session.*, not Engine")
    await refused("postgresql://", "not str")
    with own_engine.connect() as connection:
        pass
    await refused(connection, "is closed")
    await refused(Session(), "cannot be used")
    with own_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        await refused(connection, "commits by itself")
    by_itself = create_engine(own_engine.url, isolation_level="AUTOCOMMIT")
    with by_itself.connect() as connection:
        await refused(connection, "commits by itself")
    others = [f"sqlite:///{tmp_path / 'other.db'}", "sqlite://"]
    if own_engine.dialect.name == "postgresql":
        others.append(own_url(request.getfixturevalue("new_postgresql_url")()))
        others.append(own_url(request.getfixturevalue("new_postgresql_url")(migrated=False)))
    for url in others:
        other = create_engine(url)
        with other.connect() as connection:
            await refused(connection, "is to ")
        other.dispose()
    by_itself.dispose()
    assert await rows(client) == []


async def test_a_database_in_memory_has_no_other_connections(own_engine: Engine) -> None:
    if own_engine.dialect.name != "sqlite":
        return
    async with Client.connect("sqlite://") as client:
        with own_engine.connect() as connection, pytest.raises(InvalidOptionError, match="in memory"):
            await client.start(Doubling.run, 1, connection=connection)


async def test_a_statement_that_fails_raises_an_error_of_the_store(
    client: Client, own_engine: Engine
) -> None:
    with own_engine.connect() as connection:
        sqlite = connection.dialect.name == "sqlite"
        connection.execute(text("PRAGMA query_only = ON" if sqlite else "SET TRANSACTION READ ONLY"))
        with pytest.raises(StoreError) as caught:
            await client.start(Doubling.run, 123_456_789, connection=connection)
        assert "123456789" not in str(caught.value)
        connection.rollback()
        if sqlite:
            connection.execute(text("PRAGMA query_only = OFF"))


async def test_what_is_refused_after_the_commit_is_kept_and_can_be_tried_again(
    client: Client, own_engine: Engine
) -> None:
    await client.queues.define("q", concurrency=1)
    with own_engine.begin() as connection:
        handle = await client.start(
            Doubling.run, 1, id="w", options=StartOptions(queue="q"), connection=connection
        )
        await handle.signal("add", "secret", connection=connection)
    await client.queues.delete("q")
    await client.outbox.drain()
    entries = await client.outbox.list(state="refused")
    assert [(entry.kind, entry.workflow_id, entry.state) for entry in entries] == [
        ("start", "w", "refused"),
        ("signal", "w", "refused"),
    ]
    assert "there is no queue 'q'" in str(entries[0].reason)
    assert "secret" not in str(entries)
    with pytest.raises(OutboxRefusedError, match="there is no queue 'q'"):
        await handle.result()
    summary = await client.outbox.summary()
    assert (summary.waiting, summary.refused) == (0, 2)
    await client.queues.define("q", concurrency=1, if_exists="update")
    for entry in entries:
        await client.outbox.retry(entry.outbox_id)
    assert await client.outbox.list() == []
    assert (await handle.describe()).run.queue is not None
    for verb in (client.outbox.retry, client.outbox.delete):
        with pytest.raises(OutboxRowNotFoundError):
            await verb(entries[0].outbox_id)


async def test_a_workflow_that_is_deleted_takes_its_refused_rows_along(
    client: Client, own_engine: Engine
) -> None:
    handle = await client.start(Collecting.run, 1, id="w")
    sql = "INSERT INTO outlast_outbox (kind, workflow_id, name, args) VALUES ('signal', :w, 'add', '[1]')"
    await handle.terminate()
    with own_engine.begin() as connection:
        for workflow_id in ("w", "nobody"):
            connection.execute(text(sql), {"w": workflow_id})
    await client.outbox.drain()
    assert len(await client.outbox.list(state="refused")) == 2
    await client.delete("w")
    assert [entry.workflow_id for entry in await client.outbox.list()] == ["nobody"]


async def test_a_waiting_row_can_be_deleted(client: Client, own_engine: Engine) -> None:
    sql = (
        "INSERT INTO outlast_outbox (kind, workflow_id, name, args) VALUES ('start', 'w', 'Doubling', '[1]')"
    )
    with own_engine.begin() as connection:
        connection.execute(text(sql))
    [entry] = await client.outbox.list(state="waiting")
    await client.outbox.delete(entry.outbox_id)
    with pytest.raises(WorkflowNotFoundError):
        await client.handle("w").describe()


async def test_the_start_of_an_id_that_is_open_by_then_joins_or_is_refused(
    client: Client, own_engine: Engine
) -> None:
    """Others are faster: their rows come first, as a trigger's might that has the lower numbers."""
    later = text("UPDATE outlast_outbox SET outbox_id = outbox_id + 1000")
    faster = text(
        "INSERT INTO outlast_outbox (outbox_id, kind, workflow_id, name, args) "
        "VALUES (1, 'start', 'w', 'Collecting', '[1]'), (2, 'start', 'v', 'Collecting', '[1]')"
    )
    with own_engine.begin() as connection:
        joining = await client.start(
            Collecting.run, 1, id="w", options=StartOptions.return_existing(), connection=connection
        )
        refused = await client.start(Collecting.run, 1, id="v", connection=connection)
        asked_for = joining.run_id
        connection.execute(later)
        connection.execute(faster)
    await client.outbox.drain()
    described = await joining.describe()
    assert joining.existed
    assert described.run.run_id == joining.run_id != asked_for
    with pytest.raises(OutboxRefusedError, match="already started"):
        await refused.result()


# --- asynchronous connections ---------------------------------------------------------------------------------------


@pytest.fixture
async def async_engine(postgresql_url: str) -> AsyncIterator[AsyncEngine]:
    made = create_async_engine(own_url(postgresql_url))
    yield made
    await made.dispose()


async def test_asynchronous_connections_and_sessions(postgresql_url: str, async_engine: AsyncEngine) -> None:
    async with (
        Client.connect(postgresql_url) as client,
        Worker(client, workflows=WORKFLOWS, activities=[double]),
    ):
        async with async_engine.begin() as connection:
            first = await client.start(Doubling.run, 1, connection=connection)
        async with AsyncSession(async_engine) as session, session.begin():
            second = await client.start(Doubling.run, 2, connection=session)
        async with AsyncSession(async_engine) as session:
            third = await client.start(Doubling.run, 3, connection=session)
        assert (await first.result(), await second.result()) == (2, 4)
        with pytest.raises(StartNotCommittedError):
            await third.result()
        unopened = async_engine.connect()
        with pytest.raises(InvalidOptionError, match="cannot be used"):
            await client.start(Doubling.run, 1, connection=unopened)

    def call() -> None:
        with BlockingClient.connect(postgresql_url) as blocking:
            connection: Any = unopened
            with pytest.raises(InvalidOptionError, match="is asynchronous"):
                blocking.start(Doubling.run, 1, connection=connection)

    await asyncio.to_thread(call)


# --- SQL ------------------------------------------------------------------------------------------------------------


async def test_sql_functions_start_signal_and_cancel(postgresql_url: str) -> None:
    engine = create_engine(own_url(postgresql_url))
    async with (
        Client.connect(postgresql_url) as client,
        Worker(client, workflows=WORKFLOWS, activities=[double]),
    ):
        await client.queues.define("q", concurrency=1)
        with engine.begin() as connection:
            # The functions are bound to the table, whatever the search path is.
            connection.execute(text("SET LOCAL search_path = pg_catalog"))
            sql = """SELECT public.outlast_start('Doubling', '[21]', queue => 'q', partition_key => 't', priority => 1,
                run_timeout_seconds => 60, deadline => now() + interval '1 hour', memo => '{"a": null}',
                search_attributes => '{"customer": "ada", "n": 5}', ring => true)"""
            workflow_id = connection.execute(text(sql)).scalar_one()
            named = connection.execute(
                text("SELECT public.outlast_start('Collecting', '[2]', id => 'c')")
            ).scalar_one()
            assert named == "c"
            again = text("SELECT public.outlast_start('Collecting', '[9]', 'c')")
            connection.execute(again)
            for item in ("a", "b"):
                connection.execute(
                    text("SELECT public.outlast_signal('c', 'add', jsonb_build_array(CAST(:item AS text)))"),
                    {"item": item},
                )
        handle = client.handle(workflow_id)
        assert await handle.result() == 42
        run = (await handle.describe()).run
        assert run.memo == {"a": None}
        assert run.search_attributes == {"customer": "ada", "n": 5}
        assert run.execution_deadline_at is not None
        assert await client.handle("c").result() == ["a", "b"]
        other = await client.start(Collecting.run, 1, id="d")
        with engine.begin() as connection:
            connection.execute(text("SELECT outlast_cancel('d', 'from psql')"))
        with pytest.raises(WorkflowCancelledError, match="from psql"):
            await other.result()
    engine.dispose()


WRONG = [
    ("start", "''", "'Doubling'", "'[]'", "'{}'"),
    ("start", "'w'", "''", "'[]'", "'{}'"),
    ("start", "'w'", "NULL", "'[]'", "'{}'"),
    ("begin", "'w'", "'Doubling'", "'[]'", "'{}'"),
    ("cancel", "'w'", "'a name'", "NULL", "'{}'"),
    ("start", "'w'", "'Doubling'", "'{}'", "'{}'"),
    ("start", "'w'", "'Doubling'", "'[]'", "'[]'"),
    ("start", "'w'", "'Doubling'", "'[]'", "'{\"start_delay\": -1}'"),
    ("start", "'w'", "'Doubling'", "'[]'", "'{\"run_timeout\": 0.5}'"),
    ("start", "'w'", "'Doubling'", "'[]'", "'{\"execution_timeout\": 0}'"),
    ("start", "'w'", "'Doubling'", "'[]'", "'{\"priority\": 10}'"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=[" ".join(wrong) for wrong in WRONG])
async def test_the_table_refuses_what_cannot_be(
    client: Client, own_engine: Engine, wrong: tuple[str, ...]
) -> None:
    kind, *values = wrong
    sql = "INSERT INTO outlast_outbox (kind, workflow_id, name, args, options) VALUES"
    with own_engine.connect() as connection, pytest.raises(Exception, match=r"(?i)constraint"):
        connection.exec_driver_sql(f"{sql} ('{kind}', {', '.join(values)})")


UNREADABLE = [
    ("start", "Doubling", "[1]", '{"run_timeout": "soon"}'),
    ("start", "Doubling", "[1]", '{"no_option": 1}'),
    ("start", "Doubling", "[1]", '{"task_queue": "outlast.x"}'),
    ("start", "outlast.x", "[1]", "{}"),
    ("start", "Doubling", "[1]", '{"retry_policy": 5}'),
    ("start", "Doubling", "[1]", '{"memo": [1]}'),
    ("start", "Doubling", "[1]", '{"search_attributes": {"a": {"b": 1}}}'),
    ("start", "Doubling", "[1]", '{"headers": 7}'),
    ("start", "Doubling", "[1]", '{"execution_deadline": "2001-01-01T00:00:00+00:00"}'),
    ("start", "Doubling", "[1]", '{"execution_deadline": "tomorrow"}'),
    (
        "start",
        "Doubling",
        "[1]",
        '{"execution_deadline": "2101-01-01T00:00:00+00:00", "execution_timeout": 5}',
    ),
    ("start", "Doubling", "[1]", '{"signal": {"args": []}}'),
    ("start", "Doubling", "[1]", '{"signal": 5}'),
    ("start", "Doubling", "[1]", '{"duplicate_policy": "perhaps"}'),
    ("start", "Doubling", "[1]", '{"queue": "nobodys"}'),
    ("signal", "add", "[1]", "{}"),
    ("signal", "..", "[1]", "{}"),
    ("signal", "add", "[1]", '{"request_id": 5}'),
    ("signal", "add", "[1]", '{"run_id": []}'),
    ("cancel", None, None, "{}"),
    ("cancel", None, None, '{"reason": 5}'),
]


async def test_a_row_that_cannot_be_applied_is_refused_and_the_others_are_not(
    client: Client, own_engine: Engine
) -> None:
    sql = text(
        "INSERT INTO outlast_outbox (kind, workflow_id, name, args, options) VALUES (:k, :w, :n, :a, :o)"
    )
    # PostgreSQL does not take the first: its checks read the numbers.
    written: list[str] = []
    with own_engine.begin() as connection:
        for number, (kind, name, args, options) in enumerate(UNREADABLE):
            values = {"k": kind, "w": f"w-{number}", "n": name, "a": args, "o": options}
            if connection.dialect.name == "sqlite" or '"soon"' not in options:
                connection.execute(sql, values)
                written.append(f"w-{number}")
            good = {"k": "start", "w": f"good-{number}", "n": "Doubling", "a": "[1]", "o": "{}"}
            connection.execute(sql, good)
    assert await client.outbox.drain() == len(UNREADABLE)
    refused = await client.outbox.list()
    assert [entry.workflow_id for entry in refused] == written
    assert all(entry.state == "refused" and entry.reason for entry in refused), refused
    assert await client.count() == len(UNREADABLE)
