"""Rules on lists of tasks and where each goes on: names, targets, switches, what is never reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from outlast_serverless.plan.pointers import child
from outlast_serverless.rules.finding import Finding, Names, meant, quoted
from outlast_serverless.rules.subject import Scope, Subject, Task, entries, mapping

DIRECTIVES: Final = ("continue", "exit", "end")


def check_flow(subject: Subject) -> Iterator[Finding]:
    """Yield what is wrong with lists of tasks."""
    everywhere = {task.name for task in subject.tasks}
    for pointer, tasks in _empty(subject.definition, subject):
        yield Finding("empty_task_list", pointer, "the list of tasks is empty", f"give it a task{tasks}")
    for scope in subject.scopes:
        yield from _names(scope)
        yield from _unreachable(scope)
        names = Names(name for name, _ in scope.entries)
        targets = Names([*names, *DIRECTIVES])
        for task in scope.tasks:
            yield from _targets(task, names, targets, everywhere)
            yield from _kind(task)


def _empty(definition: dict[str, Any], subject: Subject) -> Iterator[tuple[str, str]]:
    for scope in subject.scopes:
        if not scope.single and not scope.entries:
            yield scope.pointer, ", or remove it" if scope.pointer != "/do" else ""


def _names(scope: Scope) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for name, pointer in scope.entries:
        if name in DIRECTIVES:
            yield Finding(
                "reserved_task_name",
                pointer,
                f"no task can be named {name}, which `then` takes for a directive",
                "give it another name",
                key=True,
            )
        if name in seen:
            yield Finding(
                "duplicate_task",
                pointer,
                f"{quoted(name)} names another task of this list already",
                "give each a name of its own",
                key=True,
            )
        seen.setdefault(name, pointer)


def directives(task: Task) -> list[tuple[str, Any]]:
    """Return where a task may go on: the pointers of its directives, and what they say."""
    found = [(f"{task.pointer}/then", task.value["then"])] if "then" in task.value else []
    if task.kind == "switch":
        for index, name, case in entries(task.value["switch"]):
            if "then" in case:
                found.append((f"{child(f'{task.pointer}/switch', index, name)}/then", case["then"]))
    if task.kind == "try" and "then" in mapping(task.value, "catch"):
        found.append((f"{task.pointer}/catch/then", task.value["catch"]["then"]))
    return found


def _targets(task: Task, names: Names, targets: Names, everywhere: set[str]) -> Iterator[Finding]:
    for pointer, target in directives(task):
        if not isinstance(target, str) or target in DIRECTIVES:
            continue
        if task.scope.parallel:
            yield Finding(
                "branch_target",
                pointer,
                "a branch of a fork goes on to no other branch: they run side by side",
                "put both tasks into one branch, under `do`",
            )
        elif target in names:
            always = task.kind != "switch" and "if" not in task.value and not pointer.endswith("/catch/then")
            if target == task.name and always:
                yield Finding(
                    "endless_loop",
                    pointer,
                    "it goes on to itself, always",
                    "give it an `if`, or use `for` with `while`",
                )
        elif target in everywhere:
            yield Finding(
                "target_in_other_scope",
                pointer,
                f"{quoted(target)} is a task of another list",
                "go on to a task of the same list, or leave the list with `exit`",
            )
        else:
            yield Finding(
                "unknown_target",
                pointer,
                f"there is no task {quoted(target)} in this list",
                meant(target, targets, "go on to a task of the same list, or use continue, exit or end"),
            )


def _unreachable(scope: Scope) -> Iterator[Finding]:
    if scope.parallel:
        return
    targets = {target for task in scope.tasks for _, target in directives(task) if isinstance(target, str)}
    ended = False
    for task in scope.tasks:
        if task.name in targets:
            ended = False
        if ended:
            yield Finding(
                "unreachable_task",
                task.pointer,
                f"nothing goes on to {quoted(task.name)}",
                "name it in a `then`, or remove it",
                key=True,
            )
            # What follows it is told once it can be reached.
            return
        ended = _never_continues(task)


def _never_continues(task: Task) -> bool:
    if "if" in task.value:
        return False
    if task.kind == "raise":
        return True
    then = task.value.get("then", "continue")
    if task.kind == "switch":
        cases = [case for _, _, case in entries(task.value["switch"])]
        whole = any("when" not in case for case in cases)
        outcomes = [case.get("then") for case in cases] + ([] if whole else [then])
        return "continue" not in outcomes
    if task.kind == "try" and mapping(task.value, "catch").get("then", then) == "continue":
        return False
    return bool(then != "continue")


def _kind(task: Task) -> Iterator[Finding]:
    if task.kind == "switch":
        yield from _switch(task)
    elif task.kind == "fork":
        branches = mapping(task.value, "fork").get("branches")
        if isinstance(branches, list) and len(branches) == 1:
            yield Finding(
                "single_branch",
                f"{task.pointer}/fork/branches",
                "a fork with one branch forks nothing",
                "use `do`, or add a branch",
            )


def _switch(task: Task) -> Iterator[Finding]:
    cases = entries(task.value["switch"])
    place = f"{task.pointer}/switch"
    seen: set[str] = set()
    defaults = [(index, name) for index, name, case in cases if "when" not in case]
    for index, name, _ in cases:
        if name in seen:
            yield Finding(
                "duplicate_case",
                child(place, index, name),
                f"the case {quoted(name)} is there twice",
                "give each a name of its own",
                key=True,
            )
        seen.add(name)
    for index, name in defaults[1:]:
        yield Finding(
            "several_defaults",
            child(place, index, name),
            "a second case has no `when`",
            "one case without `when` is the default: give this one a `when`",
            key=True,
        )
    if len(defaults) == 1 and defaults[0][0] != cases[-1][0]:
        yield Finding(
            "default_not_last",
            child(place, *defaults[0]),
            "cases stand after the default",
            "the first match counts: put the default last",
            key=True,
        )
