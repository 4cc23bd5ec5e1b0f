"""A document: a definition that was checked, with the text that it came from."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Final

from outlast_serverless.documents.checking import findings
from outlast_serverless.documents.digest import digest
from outlast_serverless.documents.reading import Reading, read
from outlast_serverless.plan.compiler import compile_plan
from outlast_serverless.plan.model import Plan
from outlast_serverless.rules.catalogue import RULES
from outlast_serverless.rules.check import check
from outlast_serverless.rules.finding import Finding
from outlast_serverless.rules.jq_text import Checker
from outlast_workflow.errors.options import DocumentProblem, InvalidDocumentError

MOST_PROBLEMS: Final = 200
"""No more are told: what comes first matters most."""


class Document:
    """A document of the Serverless Workflow DSL 1.x that was found to be in order.

    Attributes:
        definition: The definition, as JSON. Nobody changes it.
        source: The text that it came from.
        warnings: What somebody should look at.
        compiles: Whether a checker has said that each of its expressions compiles.
    """

    __slots__ = ("__dict__", "compiles", "definition", "source", "warnings")

    def __init__(
        self,
        definition: dict[str, Any],
        source: str,
        warnings: tuple[DocumentProblem, ...],
        *,
        compiles: bool = False,
    ) -> None:
        self.definition = definition
        self.source = source
        self.warnings = warnings
        self.compiles = compiles

    @classmethod
    def load(cls, path: str | Path, *, lenient: bool = False, checker: Checker | None = None) -> Document:
        """Return the document in a file.

        Args:
            path: The file, YAML or JSON.
            lenient: Whether what the DSL does not know, but does no harm, is only warned of.
            checker: What says whether an expression compiles; without one that is not checked.

        Raises:
            InvalidDocumentError: It cannot be used; ``problems`` are all that is wrong with it.
            OSError: The file cannot be read.
        """
        with Path(path).open("rb") as file:
            # Longer ones are refused unread.
            return cls.parse(file.read(1 << 20), name=str(path), lenient=lenient, checker=checker)

    @classmethod
    def parse(
        cls,
        text: str | bytes,
        *,
        name: str = "the document",
        lenient: bool = False,
        checker: Checker | None = None,
    ) -> Document:
        """Return the document in a text.

        Args:
            text: YAML or JSON.
            name: What the document is called in messages.
            lenient: Whether what the DSL does not know, but does no harm, is only warned of.
            checker: What says whether an expression compiles; without one that is not checked.

        Raises:
            InvalidDocumentError: It cannot be used; ``problems`` are all that is wrong with it.
        """
        reading = read(text)
        problems = list(reading.problems)
        warnings: list[DocumentProblem] = []
        if reading.whole:
            for finding in findings(reading.value, checker):
                rule = RULES[finding.code]
                soft = rule.warning or (lenient and rule.lenient)
                (warnings if soft else problems).append(_problem(finding, reading))
        if problems:
            raise InvalidDocumentError(name, _sorted(problems), _sorted(warnings))
        return cls(reading.value, reading.text, tuple(_sorted(warnings)), compiles=checker is not None)

    def check_expressions(self, checker: Checker) -> None:
        """Refuse it if one of its expressions does not compile, where no checker has looked at it before.

        Args:
            checker: What says whether an expression compiles.

        Raises:
            InvalidDocumentError: Some do not; ``problems`` are all of them.
        """
        if self.compiles:
            return
        found = [one for one in check(self.definition, checker) if one.code == "invalid_expression"]
        if found:
            reading = read(self.source)
            problems = _sorted([_problem(one, reading) for one in found])
            raise InvalidDocumentError(
                f"{self.namespace}/{self.name}:{self.version}", problems, self.warnings
            )
        self.compiles = True

    @property
    def dsl(self) -> str:
        """The version of the DSL."""
        return str(self.definition["document"]["dsl"])

    @property
    def namespace(self) -> str:
        """The namespace."""
        return str(self.definition["document"]["namespace"])

    @property
    def name(self) -> str:
        """The name."""
        return str(self.definition["document"]["name"])

    @property
    def version(self) -> str:
        """The version."""
        return str(self.definition["document"]["version"])

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON of the definition, in hexadecimal."""
        return digest(self.definition)

    @cached_property
    def plan(self) -> Plan:
        """What is run."""
        return compile_plan(self.definition)

    def __repr__(self) -> str:
        return f"<Document {self.namespace}/{self.name}:{self.version} {self.digest[:12]}>"


def _problem(finding: Finding, reading: Reading) -> DocumentProblem:
    at = reading.place.at(finding.pointer, key=finding.key)
    return DocumentProblem(finding.code, finding.pointer, at.line, at.column, finding.message, finding.hint)


def _sorted(problems: list[DocumentProblem]) -> list[DocumentProblem]:
    return sorted(problems, key=lambda problem: (problem.line, problem.column))[:MOST_PROBLEMS]
