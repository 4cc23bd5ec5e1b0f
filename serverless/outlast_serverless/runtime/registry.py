"""The registry: documents by namespace, name and version. It is for naming: a run has its definition in history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson
from sqlalchemy import Connection

from outlast_serverless.documents.document import Document
from outlast_serverless.documents.versions import latest
from outlast_store.database.sql_text import fetch
from outlast_store.journal.batch import BaseChange, Batch
from outlast_workflow.errors import DocumentConflictError, DocumentNotFoundError, InvalidOptionError

LATEST: Final = "latest"
_KEY: Final = "namespace = ? AND name = ?"
_MOST: Final = 1_000
"""How many versions of a document are looked at, and how many documents one page has."""


class RegisteredDocument(NamedTuple):
    """A document as it was registered.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        version: Its version.
        digest: The digest of its definition.
        dsl: The version of the DSL.
        registered_at: When it was, in microseconds since the epoch.
    """

    namespace: str
    name: str
    version: str
    digest: str
    dsl: str
    registered_at: int

    @property
    def full_name(self) -> str:
        """The name with namespace and version."""
        return f"{self.namespace}/{self.name}:{self.version}"


_COLUMNS: Final = ", ".join(RegisteredDocument._fields)


class RegisterDocument(BaseChange):
    """Register a version of a document; nothing changes if it is registered with the same content.

    Args:
        document: The document.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.weight = 1024 + len(document.source)

    def apply(self, batch: Batch) -> bool:
        """Return whether it is new.

        Raises:
            DocumentConflictError: The version is registered with another content.
        """
        one = self.document
        key = (one.namespace, one.name, one.version)
        text = (
            f"INSERT INTO serverless_documents ({_COLUMNS}, definition, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING"
        )
        definition = orjson.dumps(one.definition).decode()
        values = (*key, one.digest, one.dsl, batch.now, definition, one.source)
        if batch.execute(text, values) == 1:
            return True
        found = batch.scan(f"SELECT digest FROM serverless_documents WHERE {_KEY} AND version = ?", key)
        if not found or found[0][0] != one.digest:
            raise DocumentConflictError(f"{one.namespace}/{one.name}:{one.version}")
        return False


def read_document(connection: Connection, namespace: str, name: str, version: str) -> Document:
    """Return a registered document.

    Args:
        connection: Where to read.
        namespace: Its namespace.
        name: Its name.
        version: Its version, or ``latest``: the highest, a pre-release only if there is nothing else.

    Raises:
        DocumentNotFoundError: There is none.
    """
    versions = versions_of(connection, namespace, name)
    if version == LATEST:
        version = latest(versions) or version
    if version not in versions:
        wanted = f"{namespace}/{name}" + ("" if version == LATEST else f":{version}")
        raise DocumentNotFoundError(wanted, versions)
    text = f"SELECT definition, source FROM serverless_documents WHERE {_KEY} AND version = ?"
    definition, source = fetch(connection, text, (namespace, name, version))[0]
    # It was checked when it was registered.
    return Document(orjson.loads(definition), source, ())


def versions_of(connection: Connection, namespace: str, name: str) -> list[str]:
    """Return the versions of a document that are registered, as they were registered."""
    text = f"SELECT version FROM serverless_documents WHERE {_KEY} ORDER BY registered_at, version LIMIT ?"
    return [row[0] for row in fetch(connection, text, (namespace, name, _MOST))]


def page_of_documents(
    connection: Connection, after: Sequence[str], limit: int = _MOST
) -> list[RegisteredDocument]:
    """Return registered documents by namespace, name and version.

    Args:
        connection: Where to read.
        after: The namespace, name and version of the one before; empty for the first page.
        limit: How many at most.
    """
    beyond = "WHERE (namespace, name, version) > (?, ?, ?) " if after else ""
    text = f"SELECT {_COLUMNS} FROM serverless_documents {beyond}ORDER BY namespace, name, version LIMIT ?"
    return [RegisteredDocument(*row) for row in fetch(connection, text, (*after, limit))]


def parsed_name(text: str) -> tuple[str, str, str]:
    """Return namespace, name and version of ``namespace/name`` or ``namespace/name:version``.

    Raises:
        InvalidOptionError: It is neither.
    """
    whole, _, version = text.partition(":")
    namespace, slash, name = whole.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise InvalidOptionError(
            f"{text!r:.100} names no document: write namespace/name, or namespace/name:version",
            field="document",
        )
    return namespace, name, version or LATEST


def digest_of(connection: Connection, namespace: str, name: str, version: str) -> str | None:
    """Return the digest of a version of a document; ``None`` if it is not registered."""
    text = f"SELECT digest FROM serverless_documents WHERE {_KEY} AND version = ?"
    rows = fetch(connection, text, (namespace, name, version))
    return rows[0][0] if rows else None


class NamedDocument(NamedTuple):
    """All versions of a document.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        versions: Its versions, as they were registered.
        latest: The latest one.
        title: The title of that one, if it has one.
        registered_at: When a version was registered last, in microseconds since the epoch.
    """

    namespace: str
    name: str
    versions: list[str]
    latest: str
    title: str | None
    registered_at: int


def page_of_names(connection: Connection, after: Sequence[str], limit: int) -> list[NamedDocument]:
    """Return documents by namespace and name.

    Args:
        connection: Where to read.
        after: The namespace and name of the one before; empty for the first page.
        limit: How many at most.
    """
    beyond = "WHERE (namespace, name) > (?, ?) " if after else ""
    text = (
        f"SELECT namespace, name, MAX(registered_at) FROM serverless_documents {beyond}"
        "GROUP BY namespace, name ORDER BY namespace, name LIMIT ?"
    )
    return [_named(connection, *row) for row in fetch(connection, text, (*after, limit))]


def _named(connection: Connection, namespace: str, name: str, registered_at: int) -> NamedDocument:
    versions = versions_of(connection, namespace, name)
    last = latest(versions) or versions[-1]
    text = f"SELECT definition FROM serverless_documents WHERE {_KEY} AND version = ?"
    head = orjson.loads(fetch(connection, text, (namespace, name, last))[0][0])["document"]
    return NamedDocument(namespace, name, versions, last, head.get("title"), registered_at)


def registered(connection: Connection, namespace: str, name: str) -> list[RegisteredDocument]:
    """Return the versions of a document, as they were registered."""
    text = f"SELECT {_COLUMNS} FROM serverless_documents WHERE {_KEY} ORDER BY registered_at, version LIMIT ?"
    return [RegisteredDocument(*row) for row in fetch(connection, text, (namespace, name, _MOST))]
