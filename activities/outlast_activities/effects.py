"""Effects in other databases: an activity's transaction there notes that it was done, and with what result.

``activity.once(connection)`` writes the key of the activity into the table ``outlast_effects`` of that database, in the
caller's own transaction. The note and the effect are committed together, so a later attempt finds both or neither, and
does not repeat the effect. The completion in history comes after it: if the process dies in between, the next attempt
returns the noted result.

Two attempts at the same time want the same key. The second one waits for the first one's transaction, or fails on it
and is retried, depending on the database; either way it then finds the note.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Executable,
    MetaData,
    String,
    Table,
    Text,
    Transaction,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from outlast_activities.context import RunningActivity
from outlast_workflow.environment import SystemClock
from outlast_workflow.errors import EffectsTableMissingError, InvalidOptionError
from outlast_workflow.primitives.payloads import Payload

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

T = TypeVar("T")

LONGEST_NAME: Final = 100
_CLOCK: Final = SystemClock()

_noted_in: WeakKeyDictionary[Transaction, set[tuple[str, int, str]]] = WeakKeyDictionary()
"""What was noted in transactions that are open, as far as they noted it first."""

metadata = MetaData()
effects = Table(
    "outlast_effects",
    metadata,
    Column("run_id", String(36), primary_key=True),
    Column("activity_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", String(LONGEST_NAME), primary_key=True),
    Column("result", Text),
    Column("recorded_at", BigInteger, nullable=False, index=True),
)


class Effect:
    """What was noted of one effect of this activity: ``activity.once(connection)``.

    Attributes:
        done: Whether an earlier attempt has done it; its transaction was committed.
        result: What that attempt has kept; ``None`` if it kept nothing.
    """

    __slots__ = ("_key", "_run", "_running", "done", "result")

    def __init__(
        self,
        running: RunningActivity,
        key: tuple[str, int, str],
        run: Callable[[Executable], Any],
        noted: Any,
    ) -> None:
        self._running = running
        self._key = key
        self._run = run
        self.done: bool = noted is not None
        self.result: Any = None
        if noted is not None and noted[0] is not None:
            hint = running.definition.signature.result_hint
            self.result = running.converter.decode(
                Payload(noted[0].encode()), hint, "the result of an effect"
            )

    def _kept(self, value: T) -> tuple[Executable, T]:
        payload = self._running.converter.encode(value, "the result of an effect")
        statement = update(effects).where(*_is(self._key)).values(result=payload.json.decode())
        self.result = value
        return statement, value

    def keep(self, value: T) -> T:
        """Note the result in the same transaction, and return it.

        Args:
            value: What the activity returns, for attempts that follow.

        Raises:
            PayloadEncodeError: It has no JSON form.
        """
        statement, value = self._kept(value)
        self._run(statement)
        return value


class AsyncEffect(Effect):
    """The same with an asynchronous connection."""

    __slots__ = ()

    async def keep(self, value: T) -> T:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """See :meth:`Effect.keep`."""
        statement, value = self._kept(value)
        await self._run(statement)
        return value


def once(running: RunningActivity, connection: Connection | Session, name: str) -> Effect:
    """Note an effect; see :func:`outlast.activity.once`."""
    key = _key(running, name)
    if not isinstance(connection, Connection) and not callable(getattr(connection, "connection", None)):
        raise InvalidOptionError(
            "activity.once takes a SQLAlchemy Connection or Session in the transaction that has the effect, not "
            f"{type(connection).__name__}",
            field="connection",
        )
    own = connection if isinstance(connection, Connection) else connection.connection()
    return Effect(running, key, own.execute, _note(own, key))


async def once_async(
    running: RunningActivity, connection: AsyncConnection | AsyncSession, name: str
) -> AsyncEffect:
    """Note an effect; see :func:`outlast.activity.once`."""
    from sqlalchemy.ext.asyncio import AsyncSession

    key = _key(running, name)
    own = await connection.connection() if isinstance(connection, AsyncSession) else connection
    return AsyncEffect(running, key, own.execute, await own.run_sync(_note, key))


def _key(running: RunningActivity, name: str) -> tuple[str, int, str]:
    if len(name) > LONGEST_NAME:
        raise InvalidOptionError(
            f"the name of an effect is text of at most {LONGEST_NAME} characters", field="name"
        )
    row = running.task.row
    return row.run_id, row.activity_id, name


def _is(key: tuple[str, int, str]) -> tuple[Any, ...]:
    return effects.c.run_id == key[0], effects.c.activity_id == key[1], effects.c.name == key[2]


def _note(connection: Connection, key: tuple[str, int, str]) -> Any:
    """Note an effect; return what was noted before, or ``None`` if this is the first time.

    Raises:
        InvalidOptionError: It was noted before in this very transaction, so two effects have one name.
        EffectsTableMissingError: The database has no table of effects.
    """
    noted = _insert_or_find(connection, key)
    # It is still the one in which the note was written: a statement has begun it.
    transaction = connection.get_transaction()
    if transaction is not None:
        first = _noted_in.setdefault(transaction, set())
        if noted is None:
            first.add(key)
        elif key in first:
            raise InvalidOptionError(
                f"activity.once was called twice with the name {key[2]!r} in one transaction, so the second effect "
                'would be left out: give each effect a name of its own, as in activity.once(connection, "refund")',
                field="name",
            )
    return noted


def _insert_or_find(connection: Connection, key: tuple[str, int, str]) -> Any:
    values = (*key, None, _CLOCK.now())
    try:
        if connection.dialect.name in ("postgresql", "sqlite"):
            noting = _insert_new(connection.dialect.name).values(values).returning(effects.c.run_id)
            if connection.execute(noting).first() is not None:
                return None
            return connection.execute(select(effects.c.result).where(*_is(key))).one()
        noted = connection.execute(select(effects.c.result).where(*_is(key))).one_or_none()
        if noted is None:
            connection.execute(insert(effects).values(values))
        return noted
    except IntegrityError:
        raise
    except DBAPIError as error:
        if effects.name not in str(error.orig).lower():
            raise
        raise EffectsTableMissingError(
            f"{connection.engine.url.render_as_string(hide_password=True)} has no usable table {effects.name}: run "
            "`outlast effects create --url URL` with its URL once"
        ) from error


def _insert_new(dialect: str) -> Any:
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as postgresql_insert

        return postgresql_insert(effects).on_conflict_do_nothing()
    from sqlalchemy.dialects.sqlite import insert as sqlite_insert

    return sqlite_insert(effects).on_conflict_do_nothing()


# --- for the command ------------------------------------------------------------------------------------------------


def create_effects(engine: Engine) -> bool:
    """Make the table of effects; return whether it was not there yet."""
    there = has_effects(engine)
    metadata.create_all(engine)
    return not there


def has_effects(engine: Engine) -> bool:
    """Return whether the table of effects is there."""
    from sqlalchemy import inspect

    return inspect(engine).has_table(effects.name)


def prune_effects(engine: Engine, older_than: timedelta) -> int:
    """Delete the notes of effects that are older than an age; return how many.

    Args:
        engine: Where they are.
        older_than: The age. An activity that is still retried then would repeat its effect.
    """
    before = _CLOCK.now() - older_than // timedelta(microseconds=1)
    with engine.begin() as connection:
        return int(connection.execute(delete(effects).where(effects.c.recorded_at < before)).rowcount)
