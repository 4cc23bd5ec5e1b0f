"""What commands are given: documents in files, names of registered ones, and inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outlast.cli.common.exit_codes import CommandFailedError
from outlast.text.parsing import json_value
from outlast_serverless.documents.document import Document
from outlast_serverless.jq import JqChecker
from outlast_serverless.runtime.registry import parsed_name
from outlast_workflow.errors import InvalidOptionError


def given_document(named: str) -> Document | str:
    """Return the document in a file, or the name of a registered one."""
    file = Path(named)
    if file.suffix in (".yaml", ".yml", ".json") or file.is_file():
        return load(file)
    parsed_name(named)
    return named


def load(file: Path) -> Document:
    """Return the document in a file, each expression of which compiles.

    Raises:
        InvalidDocumentError: It cannot be used.
        CommandFailedError: The file cannot be read.
    """
    try:
        with JqChecker() as checker:
            return Document.load(file, checker=checker)
    except OSError as error:
        raise CommandFailedError(f"{file} cannot be read: {error.strerror or error}") from None


def input_value(text: str | None) -> Any:
    """Return the input that was given as JSON, or in a file after ``@``.

    Raises:
        InvalidOptionError: It is no JSON, or the file cannot be read.
    """
    if text is None:
        return None
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOptionError(f"input {text} cannot be read: {error}", field="input") from None
    return json_value("input", text)
