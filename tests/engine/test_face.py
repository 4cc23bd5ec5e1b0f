"""The public face: what it has, what it is made of, and what it costs to import."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import activity, blocking, client, errors, interceptors, testing, tracing, watchdog, workflow
from outlast_workflow import errors as tree

PUBLIC = [
    "ActivityError",
    "ActivityIds",
    "ActivityOptions",
    "ActivityStatus",
    "ActivityTimeoutError",
    "AlertPolicy",
    "ApplicationError",
    "At",
    "Attention",
    "CancellationType",
    "CatchUp",
    "ChildWorkflowError",
    "Client",
    "Cron",
    "DataConverter",
    "DuplicatePolicy",
    "Every",
    "FailureCategory",
    "HistoryEvent",
    "InvalidOptionError",
    "NoWorkerError",
    "OutlastError",
    "Overlap",
    "ParentClosePolicy",
    "PayloadCodec",
    "QueryFailedError",
    "Queue",
    "QueueExistsError",
    "QueueInUseError",
    "QueueNotFoundError",
    "Range",
    "Rate",
    "RequestTimeoutError",
    "RetentionPolicy",
    "RetryPolicy",
    "RetryState",
    "RunStatus",
    "RunSummary",
    "Schedule",
    "ScheduleDescription",
    "ScheduleHandle",
    "SignalTo",
    "StartOptions",
    "StreamItem",
    "StructuralLimitError",
    "StructuralLimits",
    "TimeoutKind",
    "UnknownHandlerError",
    "UpdateFailedError",
    "UpdateHandle",
    "UpdateRejectedError",
    "Worker",
    "WorkflowAlreadyStartedError",
    "WorkflowCancelledError",
    "WorkflowClosedError",
    "WorkflowContinuedAsNewError",
    "WorkflowDescription",
    "WorkflowFailedError",
    "WorkflowHandle",
    "WorkflowNotFoundError",
    "WorkflowResultError",
    "WorkflowTerminatedError",
    "WorkflowTimeoutError",
    "__version__",
    "activity",
    "lifespan",
    "starting",
    "tune_process",
    "wait_first",
    "workflow",
]


def test_the_face_has_these_names_and_no_others() -> None:
    assert outlast.__all__ == PUBLIC
    assert set(PUBLIC) <= set(dir(outlast))
    for name in PUBLIC:
        assert getattr(outlast, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        # Type checkers must find it, too.
        _ = outlast.Nope  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "module",
    [outlast, activity, blocking, client, errors, interceptors, tracing, watchdog, workflow],
    ids=lambda m: m.__name__,
)
def test_the_names_of_a_public_module_are_sorted_and_there(module: Any) -> None:
    names: list[str] = module.__all__
    assert names == sorted(names)
    assert len(names) == len(set(names))
    for name in names:
        assert hasattr(module, name)


def test_everything_public_says_what_it_is() -> None:
    for module in (outlast, activity, blocking, client, errors, interceptors, workflow):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert inspect.getdoc(thing), f"{module.__name__}.{name} has no docstring"


def test_all_errors_that_users_meet_are_public_under_one_root() -> None:
    assert set(tree.__all__) - set(errors.__all__) == {"ContinueAsNew", "REGISTRY"}
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), outlast.OutlastError)
        assert name.endswith("Error")


HEAVY = {
    "alembic",
    "apscheduler",
    "click",
    "fastapi",
    "multiprocessing",
    "opentelemetry",
    "psycopg",
    "pydantic",
    "pytest",
    "rich",
    "sqlalchemy",
    "sqlite3",
    "typer",
}
"""Slow to import, and needed only by what connects, works, decodes or prints."""

DECLARING = "from outlast import Client, Worker, workflow, activity"


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh process has loaded after a statement, without those that it begins with."""
    script = f"import sys; before = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import outlast", "import outlast, outlast.blocking, outlast.errors", DECLARING]
)
def test_importing_it_loads_nothing_heavy(statement: str) -> None:
    loaded = loaded_by(statement)
    assert not HEAVY & {name.partition(".")[0] for name in loaded}


def test_importing_the_package_loads_hardly_anything() -> None:
    ours = {name for name in loaded_by("import outlast") if name.startswith("outlast")}
    assert ours - {"outlast"} == {
        "outlast_workflow",
        "outlast_workflow.primitives",
        "outlast_workflow.primitives.lazy_names",
    }


def test_declaring_workflows_loads_two_packages_of_others_and_no_machinery() -> None:
    loaded = loaded_by(DECLARING)
    others = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    # The standard library's own record of how Python was built, which older versions of orjson have it read.
    ours = ("outlast", "_sysconfigdata")
    assert {name for name in others if not name.startswith(ours)} <= {"greenlet", "orjson"}
    machinery = (
        "outlast.runtime",
        "outlast.worker.loop_worker",
        "outlast_store.journal",
        "outlast_runs",
        "outlast_schedules",
    )
    assert not [name for name in loaded if name.startswith(machinery)]
    assert len([name for name in loaded if name.startswith("outlast")]) <= 137


@pytest.mark.parametrize("name", ["start", "runtime", "handle"])
def test_a_client_that_was_not_awaited_says_how_to_connect(name: str) -> None:
    with pytest.raises(AttributeError, match=r"not connected.*client = await Client\.connect"):
        getattr(outlast.Client.connect("sqlite://"), name)


def test_the_version_has_one_place() -> None:
    version = Path(outlast.__file__).with_name("version.py").read_text()
    assert f'__version__ = "{outlast.__version__}"' in version


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def explained(function: Any, owner: Any) -> bool:
    """Whether the docstring has `Args:`, or says where they are: at another function, at the class, at a namesake."""
    said = inspect.getdoc(function) or ""
    if "Args:" in said or re.search(r":(?:func|meth):`", said):
        return True
    if parameters(function) == ["call", "next"]:
        return True  # the methods of interceptors, which their module explains
    twin = re.search(r":class:`outlast\.(\w+)`", inspect.getdoc(owner) or "")
    namesake = getattr(getattr(outlast, twin[1]), function.__name__, None) if twin is not None else None
    return (
        twin is not None
        and namesake is not None
        and namesake is not function
        and explained(namesake, getattr(outlast, twin[1]))
    )


@pytest.mark.parametrize(
    "module",
    [outlast, activity, blocking, client, interceptors, testing, watchdog, workflow],
    ids=lambda m: m.__name__,
)
def test_public_functions_with_several_parameters_explain_them(module: Any) -> None:
    silent = []
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isfunction(thing):
            found = {name: thing}
        elif inspect.isclass(thing) and not issubclass(thing, BaseException):
            members = {key: getattr(value, "__func__", value) for key, value in vars(thing).items()}
            found = {
                key: one
                for key, one in members.items()
                if inspect.isfunction(one) and not key.startswith("_")
            }
        else:
            continue
        silent += [
            f"{name}.{key}"
            for key, one in found.items()
            if len(parameters(one)) > 1 and not explained(one, thing)
        ]
    assert silent == []
