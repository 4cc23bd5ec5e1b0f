"""All rules at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from outlast_serverless.rules.expressions import check_expressions
from outlast_serverless.rules.finding import Finding
from outlast_serverless.rules.flow import check_flow
from outlast_serverless.rules.head import check_head
from outlast_serverless.rules.jq_text import Checker
from outlast_serverless.rules.references import check_references
from outlast_serverless.rules.subject import Subject
from outlast_serverless.rules.tasks import check_tasks
from outlast_serverless.rules.times import check_times


def check(definition: dict[str, Any], checker: Checker | None = None) -> Iterator[Finding]:
    """Yield what the rules find in a definition, whatever its form.

    Args:
        definition: The definition.
        checker: What says whether an expression compiles; without one that is not checked.
    """
    subject = Subject(definition)
    yield from check_head(subject)
    yield from check_flow(subject)
    yield from check_references(subject)
    yield from check_times(subject)
    yield from check_tasks(subject)
    yield from check_expressions(subject, checker)
