"""Database URLs: which forms are accepted, and when two of them name the same database."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from sqlalchemy import URL

from outlast_workflow.errors import InvalidUrlError

Backend = Literal["sqlite", "postgresql"]

_FORMS: Final = """\
  sqlite:///orders.db                     a file, relative to the working directory
  sqlite:////var/lib/orders.db            a file, by its absolute path (four slashes)
  sqlite://                               in memory, for tests
  postgresql://user:password@host/orders  PostgreSQL; libpq's hosts and options are kept"""

_SECRETS: Final = frozenset({"password", "sslpassword", "oauth_client_secret"})


@dataclass(frozen=True, slots=True, repr=False)
class DatabaseUrl:
    """One database, named by a URL.

    Attributes:
        backend: ``"sqlite"`` or ``"postgresql"``.
        memory: Whether it is SQLite in memory, which ends with the process.
        path: The SQLite file, absolute (a later ``chdir`` changes nothing); ``None`` when there is no file.
        sqlalchemy_url: The URL for SQLAlchemy; for PostgreSQL with the psycopg driver.
        display: The URL with its passwords hidden, fit for messages and logs.
        identity: Equal for URLs that name the same database, user and options, whatever the password. Clients of one
            process and identity share one journal.
    """

    backend: Backend
    memory: bool
    path: Path | None
    sqlalchemy_url: URL
    display: str
    identity: str

    @classmethod
    def parse(cls, text: str) -> DatabaseUrl:
        """Parse a URL.

        Args:
            text: A URL of one of the accepted forms.

        Raises:
            InvalidUrlError: The URL has another form. The message lists the accepted ones and never shows a password.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _invalid(f"a database URL is text, not {type(text).__name__}")
        scheme, separator, rest = text.partition("://")
        if not separator:
            raise _invalid("that is not a database URL: it has no '://'")
        if scheme == "sqlite":
            return _sqlite(rest)
        if scheme in ("postgresql", "postgres"):
            return _postgresql(rest)
        raise _invalid(f"the scheme {scheme!r} is not supported{_hint(scheme)}")

    def __str__(self) -> str:
        return self.display

    def __repr__(self) -> str:
        return f"DatabaseUrl({self.display!r})"


def _invalid(problem: str) -> InvalidUrlError:
    return InvalidUrlError(f"{problem}; use one of:\n{_FORMS}")


def _hint(scheme: str) -> str:
    base = scheme.partition("+")[0]
    if base != scheme and base in ("sqlite", "postgresql", "postgres"):
        return f" (leave the driver out: {base}://)"
    return ""


def _sqlite(rest: str) -> DatabaseUrl:
    if rest in ("", "/", "/:memory:"):
        return DatabaseUrl(
            backend="sqlite",
            memory=True,
            path=None,
            sqlalchemy_url=URL.create("sqlite"),
            display="sqlite://",
            identity="sqlite::memory:",
        )
    if not rest.startswith("/"):
        raise _invalid(
            f"'sqlite://{rest}' has two slashes, so {rest.partition('/')[0]!r} would be a host; a file takes three"
        )
    name = rest[1:]
    if "?" in name or "#" in name or "\0" in name:
        raise _invalid("a SQLite URL takes no options, and its path no '?' or '#'")
    if name.startswith("file:") or name.endswith("/"):
        raise _invalid(f"{name!r} does not name a file")
    path = Path(os.path.abspath(name))
    return DatabaseUrl(
        backend="sqlite",
        memory=False,
        path=path,
        sqlalchemy_url=URL.create("sqlite", database=str(path)),
        display=f"sqlite:///{name}",
        identity=f"sqlite:{os.path.realpath(path)}",
    )


def _postgresql(rest: str) -> DatabaseUrl:
    """Let libpq parse its own syntax, so that every URL that ``psql`` takes is taken here and means the same."""
    # Only a process with PostgreSQL loads its driver.
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parsed = conninfo_to_dict(f"postgresql://{rest}")
    except psycopg.Error as error:
        reason = "" if _may_quote_a_secret(rest, str(error)) else f": {str(error).strip()}"
        raise _invalid(f"PostgreSQL's client library does not understand that URL{reason}") from None
    options = {key: str(value) for key, value in parsed.items() if value is not None and value != ""}
    url = _sqlalchemy_url(options)
    return DatabaseUrl(
        backend="postgresql",
        memory=False,
        path=None,
        sqlalchemy_url=url,
        display=_display(url),
        identity=_identity(options),
    )


def _may_quote_a_secret(rest: str, message: str) -> bool:
    """Return whether libpq's message may quote a part of the password: it quotes what it could not parse."""
    return "@" in rest or any(secret in rest for secret in _SECRETS) or "@" in message


def _sqlalchemy_url(options: dict[str, str]) -> URL:
    query = dict(options)
    user, password = query.pop("user", None), query.pop("password", None)
    database = query.pop("dbname", None)
    host, port = query.pop("host", None), query.pop("port", None)
    plain_host: str | None = None
    plain_port: int | None = None
    if host is not None and ("," in host or host.startswith(("/", "@"))):
        # SQLAlchemy wants several hosts, or a socket's folder, among the options, with a port for each.
        query["host"] = host
        if port is not None:
            ports = port.split(",")
            query["port"] = ",".join(ports * len(host.split(",")) if len(ports) == 1 else ports)
    else:
        plain_host = host
        if port is not None:
            try:
                plain_port = int(port)
            except ValueError:
                raise _invalid(f"a port is a number, not {port!r}") from None
    return URL.create(
        "postgresql+psycopg",
        username=user,
        password=password,
        host=plain_host,
        port=plain_port,
        database=database,
        query=query,
    )


def _display(url: URL) -> str:
    hidden = {key: "***" for key in url.query if key in _SECRETS}
    shown = url.set(drivername="postgresql").update_query_dict(hidden)
    return shown.render_as_string(hide_password=True)


def _identity(options: dict[str, str]) -> str:
    """Return all that can lead to other tables or another user's rights; a needless difference does no harm."""
    key = {name: value for name, value in options.items() if name not in _SECRETS}
    key.pop("application_name", None)
    key["host"] = key.get("host", "").lower() if not key.get("host", "").startswith("/") else key["host"]
    key.setdefault("port", "5432")
    if "user" in key:
        key.setdefault("dbname", key["user"])
    return "postgresql:" + "&".join(f"{name}={value}" for name, value in sorted(key.items()))
