"""Options, names, ids, URLs and documents that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Self

from outlast_workflow.errors.root import OutlastError


class InvalidOptionError(OutlastError, ValueError):
    """An option, a name or an id is invalid. Nothing was written."""

    facts: ClassVar[tuple[str, ...]] = ("field",)

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidUrlError(OutlastError, ValueError):
    """The database URL cannot be used."""


class DocumentProblem(NamedTuple):
    """One thing that is wrong with a document, or that somebody should look at.

    Attributes:
        code: What it is, in one word for programs: ``unknown_timeout``.
        pointer: The JSON pointer of the place; empty for the document as a whole.
        line: The line in the text, from 1; 0 if the definition came without a text.
        column: The column in that line, from 1; 0 if there is no line.
        message: What is wrong.
        hint: What to do about it; empty if the message says it.
    """

    code: str
    pointer: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        told = f"{self.pointer or '/'}: {self.message}" + (f"; {self.hint}" if self.hint else "")
        where = f"{self.line}:{self.column}: " if self.line else ""
        return f"{where}{told} [{self.code}]"


class InvalidDocumentError(OutlastError, ValueError):
    """A document cannot be used. ``problems`` are all that is wrong with it, in the order of its lines.

    Attributes:
        name: The file, or what else the document is called.
        problems: What is wrong.
        warnings: What somebody should look at besides.
    """

    facts: ClassVar[tuple[str, ...]] = ("name", "problems", "warnings")

    def __init__(
        self, name: str, problems: Iterable[DocumentProblem], warnings: Iterable[DocumentProblem] = ()
    ) -> None:
        self.name = name
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        count = len(self.problems)
        super().__init__(
            f"{name} has {count} problem{'' if count == 1 else 's'}:\n"
            + "\n".join(str(problem) for problem in self.problems)
        )

    @classmethod
    def restore(cls, message: str, facts: dict[str, Any]) -> Self:
        """Return the error with its recorded message and problems."""
        listed = {
            key: tuple(DocumentProblem(*problem) for problem in facts.get(key) or ())
            for key in ("problems", "warnings")
        }
        error = super().restore(message, {**facts, **listed})
        assert isinstance(error, cls)
        return error
