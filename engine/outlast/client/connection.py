"""A client's connection: how it is opened and left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Never, Self

from outlast.client.connecting import Connecting
from outlast_workflow.data.converter import DataConverter
from outlast_workflow.errors import InvalidOptionError
from outlast_workflow.options.limits import StructuralLimits
from outlast_workflow.options.other_names import refuse_unknown

if TYPE_CHECKING:
    from outlast.client.interceptors import Interceptor
    from outlast.runtime.runtime import Runtime
    from outlast_workflow.environment import Environment


class Connection:
    """A connection to one database, without what can be done through it.

    Attributes:
        url: The database's URL, as it was given.
        interceptors: The client's interceptors, the outermost first; those of its workers come after them.
    """

    def __init__(
        self,
        url: str,
        runtime: Runtime,
        converter: DataConverter,
        limits: StructuralLimits,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        self.url = url
        self.runtime = runtime
        self.converter = converter
        self.limits = limits
        self.interceptors = interceptors
        self._closed = False

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        converter: DataConverter | None = None,
        limits: StructuralLimits | None = None,
        environment: Environment | None = None,
        interceptors: Iterable[Interceptor] = (),
        **unknown: Never,
    ) -> Connecting[Self]:
        """Connect to a database: ``await Client.connect(url)`` or ``async with Client.connect(url) as client``.

        A SQLite file is created and migrated as needed; PostgreSQL is migrated by ``outlast migrate``.

        Args:
            url: ``sqlite:///file.db``, ``sqlite://`` (in memory, for tests) or ``postgresql://user@host/name``.
            converter: How arguments and results become JSON.
            limits: The structural limits that starts and messages are checked against.
            environment: Another clock and other ids, for tests.
            interceptors: What stands around this client's calls and around what its workers run, the outermost first.
            **unknown: Options that there are not: the error says what is meant.

        Raises:
            InvalidOptionError: There is no such option, or one is of another type.
            InvalidUrlError: The URL cannot be used.
            StoreUnreachableError: No database answers.
            SchemaMissingError: PostgreSQL has no Outlast tables; also SchemaTooOldError, SchemaTooNewError.
            StoreReadOnlyError: The database cannot be written.
        """
        if unknown:
            refuse_unknown("Client.connect", unknown, ("converter", "limits", "interceptors"))
        # The first connection loads the engine; see __init__.
        from outlast.client.interceptors import checked_interceptors

        around = checked_interceptors(interceptors)
        for name, given, wanted in (
            ("converter", converter, DataConverter),
            ("limits", limits, StructuralLimits),
        ):
            if given is not None and not isinstance(given, wanted):
                raise InvalidOptionError(
                    f"{name} must be a {wanted.__name__}, not {type(given).__name__}", field=name
                )

        async def connected() -> Self:
            # The database drivers come with the runtime.
            from outlast.runtime.runtime import Runtime
            from outlast_store.database.urls import DatabaseUrl

            runtime = await Runtime.open(DatabaseUrl.parse(url), environment)
            runtime.measure()
            return cls(url, runtime, converter or DataConverter(), limits or StructuralLimits(), around)

        return Connecting(connected)

    async def close(self) -> None:
        """Commit what has been handed over, and close; the last client of a database closes its connections."""
        if not self._closed:
            self._closed = True
            await self.runtime.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
