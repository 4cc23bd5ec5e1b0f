"""Breaking a database, to see that the checker of invariants sees it.

What is *planted* are statements that break one thing each, with a part of what must be said of that. A rule of the
checker is known by its sentence, as it stands in the source: so a rule for which nothing is planted is found too.
"""

from __future__ import annotations

import ast
import inspect
import re
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import ModuleType

from sqlalchemy import Connection, StaticPool, create_engine

from outlast.testing import check_database

Planted = Sequence[tuple[str, str]]
"""Statements (several are parted by ``; ``), and a part of what must be said of each."""


@contextmanager
def copy_of(saved: bytes) -> Generator[Connection]:
    """A copy of a saved database."""
    driver = sqlite3.connect(":memory:", isolation_level=None)
    driver.deserialize(saved)
    engine = create_engine(
        "sqlite://", creator=lambda: driver, poolclass=StaticPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        yield connection
    engine.dispose()


# --- statements -----------------------------------------------------------------------------------------------------


def run_of(workflow_id: str, number: int | None = None) -> str:
    """The run that stands for a workflow, or the one of a number."""
    if number is None:
        return f"(SELECT current_run_id FROM workflow_instances WHERE workflow_id = '{workflow_id}')"
    return f"(SELECT run_id FROM workflow_runs WHERE workflow_id = '{workflow_id}' AND run_number = {number})"


def change_run(workflow_id: str, what: str, number: int | None = None) -> str:
    return f"UPDATE workflow_runs SET {what} WHERE run_id = {run_of(workflow_id, number)}"


def change_events(workflow_id: str, kind: str, what: str, number: int | None = None) -> str:
    return (
        f"UPDATE history_events SET {what} WHERE run_id = {run_of(workflow_id, number)} AND type = '{kind}'"
    )


def say_in(workflow_id: str, kind: str, field: str, value: str, number: int | None = None) -> str:
    """Change what an event says; the value is an expression of SQL."""
    return change_events(workflow_id, kind, f"payload = json_set(payload, '$.{field}', {value})", number)


def remove(table: str, workflow_id: str, where: str = "TRUE", number: int | None = None) -> str:
    return f"DELETE FROM {table} WHERE run_id = {run_of(workflow_id, number)} AND {where}"


def append(workflow_id: str, kind: str, payload: str) -> str:
    """An event after the last one of a run; the payload has no quotes of its own but JSON's."""
    return (
        f"INSERT INTO history_events SELECT run_id, last_seq + 1, '{kind}', last_event_at, '{payload}' "
        f"FROM workflow_runs WHERE run_id = {run_of(workflow_id)}"
    )


def change_activity(workflow_id: str, what: str, activity_id: int | None = None) -> str:
    some = f" AND activity_id = {activity_id}" if activity_id is not None else ""
    return f"UPDATE activity_executions SET {what} WHERE run_id = {run_of(workflow_id)}{some}"


def together(*statements: str) -> str:
    return "; ".join(statements)


# --- what is said of them -------------------------------------------------------------------------------------------


def rules(module: ModuleType) -> set[re.Pattern[str]]:
    """The sentences in which a file of the checker says what is wrong, with gaps for their values."""
    found: set[re.Pattern[str]] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        match node:
            case (
                ast.Call(func=ast.Attribute(attr="say"), args=[_, sentence])
                | ast.Call(func=ast.Attribute(value=ast.Name("found"), attr="append"), args=[sentence])
                | ast.Yield(value=ast.Tuple(elts=[_, sentence]))
                | ast.Yield(value=ast.expr() as sentence)
                | ast.ListComp(elt=sentence)
            ):
                if isinstance(sentence, ast.JoinedStr | ast.Constant):
                    found.add(_pattern(sentence))
            case _:
                pass
    return found


def _pattern(sentence: ast.JoinedStr | ast.Constant) -> re.Pattern[str]:
    parts = sentence.values if isinstance(sentence, ast.JoinedStr) else [sentence]
    text = "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*" for part in parts)
    return re.compile(f".*: {text}", re.DOTALL)


def violations(saved: bytes, statement: str) -> list[str]:
    """What the checker says of a copy in which something was planted."""
    with copy_of(saved) as connection:
        for one in statement.split("; "):
            assert connection.exec_driver_sql(one).rowcount > 0, "nothing was planted"
        return check_database(connection)


def seen_by(saved: bytes, statement: str, said: str, module: ModuleType) -> set[re.Pattern[str]]:
    """The rules of a file of the checker that said so of something planted."""
    found = violations(saved, statement)
    meant = [violation for violation in found if said in violation]
    assert meant, found
    return {rule for rule in rules(module) for violation in meant if rule.fullmatch(violation)}
