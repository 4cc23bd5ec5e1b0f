"""What Alembic runs around the versions: by ``outlast migrate``, when a file is opened, and by the ``alembic`` command.

The runner passes its connection, with a transaction open, in ``config.attributes``. The ``alembic`` command connects by
itself, to the database of ``OUTLAST_URL`` or of ``-x url=…``.
"""

from __future__ import annotations

import os
from typing import Any

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection, create_engine, make_url

from outlast_migrations.revisions import VERSION_TABLE
from outlast_migrations.runner import one_transaction
from outlast_store.schema.indexes import complete
from outlast_store.schema.tables import metadata

_DRIVERS = {"postgresql": "postgresql+psycopg"}


def _url() -> Any:
    text = context.get_x_argument(as_dictionary=True).get("url") or os.environ.get("OUTLAST_URL")
    if not text:
        raise CommandError("no database: set OUTLAST_URL, or give -x url=sqlite:///orders.db")
    url = make_url(text)
    return url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=complete(metadata),
        version_table=VERSION_TABLE,
        compare_server_default=True,
    )
    context.run_migrations()


def _connect_and_run() -> None:
    engine = create_engine(_url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, one_transaction(connection):
        _run(connection)
    engine.dispose()


def _write() -> None:
    """Write the statements instead of running them."""
    dialect = context.config.attributes.get("dialect") or _url().get_backend_name()
    context.configure(
        dialect_name=dialect,
        target_metadata=complete(metadata),
        version_table=VERSION_TABLE,
        literal_binds=True,
    )
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    _write()
elif (given := context.config.attributes.get("connection")) is not None:
    _run(given)
else:
    _connect_and_run()
