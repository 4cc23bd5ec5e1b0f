"""The walker: goes through the functions that a workflow's code reaches within their module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from outlast.checking.modules import Function, Module, Scope, is_set
from outlast.checking.rules import (
    AWAITED,
    METHODS,
    MUTATORS,
    PATH_METHODS,
    WHY,
    Rule,
    rule_of,
)
from outlast.checking.rules import NAMES as RULES

_ANSWERED_ONCE = "outlast.workflow.side_effect"
_ALLOWED = "outlast.workflow.unsafe.allow_io"


@dataclass(slots=True, frozen=True, order=True)
class Found:
    """Something in workflow code that may not replay, at a line of a file."""

    path: str
    line: int
    column: int
    rule: str
    code: str
    instead: str

    @property
    def why(self) -> str:
        """What is wrong with it."""
        return WHY[self.rule]


class Walker:
    """Collects what the functions of one module do against the rules.

    Args:
        module: The module.
        is_activity: Whether a name at the top of the module is an activity.
        plain: Whether the workflow is a synchronous one, whose plain functions block.
    """

    def __init__(self, module: Module, is_activity: Callable[[str], bool], *, plain: bool) -> None:
        self.module = module
        self.found: set[Found] = set()
        self._is_activity = is_activity
        self._plain = plain
        self._seen: set[ast.AST] = set()
        self._waiting: list[Function] = []
        self._scope: Scope = module.top
        self._owner: ast.ClassDef | None = None
        self._self = ""
        self._blocks = False

    def walk(self, function: Function) -> None:
        """Check a function, and everything that it uses of its module."""
        self._reach(function)
        while self._waiting:
            self._function(self._waiting.pop())

    def _reach(self, function: Function) -> None:
        if function not in self._seen:
            self._seen.add(function)
            self._waiting.append(function)

    def _function(self, function: Function) -> None:
        self._owner = self.module.owners.get(function)
        arguments = [*function.args.posonlyargs, *function.args.args]
        self._self = arguments[0].arg if self._owner is not None and arguments else ""
        self._body(function)

    def _body(self, function: Function) -> None:
        self._seen.add(function)
        outer, blocks = self._scope, self._blocks
        self._scope = self.module.scopes[function]
        self._blocks = self._plain and isinstance(function, ast.FunctionDef)
        for statement in function.body:
            self._visit(statement)
        self._scope, self._blocks = outer, blocks

    # --- one node after the other -----------------------------------------------------------------------------------

    def _visit(self, node: ast.AST) -> None:
        special = _SPECIAL.get(type(node))
        if special is None:
            self._children(node)
        else:
            special(self, node)

    def _children(self, node: ast.AST) -> None:
        for inner in ast.iter_child_nodes(node):
            self._visit(inner)

    def _all(self, nodes: Any) -> None:
        for node in nodes:
            self._visit(node)

    def _nested(self, node: Any) -> None:
        if not self._declared(node):
            self._body(node)

    def _lambda(self, node: ast.Lambda) -> None:
        outer = self._scope
        self._scope = self.module.scopes[node]
        self._visit(node.body)
        self._scope = outer

    def _annotated(self, node: ast.AnnAssign) -> None:
        self._target(node.target, node)
        if node.value is not None:
            self._visit(node.value)

    def _assigned(self, node: ast.Assign | ast.Delete) -> None:
        for target in node.targets:
            self._target(target, node)
        if isinstance(node, ast.Assign):
            self._visit(node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        self._target(node.target, node)
        self._visit(node.value)

    def _target(self, target: ast.expr, statement: ast.stmt) -> None:
        root: ast.expr = target
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if root is not target and isinstance(root, ast.Name) and self._is_shared(root.id):
            self._add(statement, "global-state", ast.unparse(target), _KEEP)
        self._children(target)

    def _global(self, node: ast.Global) -> None:
        self._add(node, "global-state", ast.unparse(node), _KEEP)

    def _is_shared(self, name: str, *, mutable: bool = False) -> bool:
        top = self.module.top
        return self._scope.binding(name) is top and (not mutable or name in top.mutable)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and self._scope.full_name(call.func) == _ALLOWED:
                return
        self._children(node)

    def _loop(self, node: ast.For) -> None:
        if self._is_set(node.iter) and any(self._asks(one) for one in node.body):
            self._add(node.iter, "set-order", f"for … in {ast.unparse(node.iter)}", "sorted(…)")
        self._children(node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> None:
        for generator in node.generators:
            if self._is_set(generator.iter) and self._asks(node.elt):
                self._add(generator.iter, "set-order", f"for … in {ast.unparse(generator.iter)}", "sorted(…)")
        self._children(node)

    def _is_set(self, node: ast.expr) -> bool:
        return is_set(node) or (
            isinstance(node, ast.Name) and node.id in self._scope.sets and node.id in self._scope.bound
        )

    def _asks(self, node: ast.AST) -> bool:
        """Return whether some code makes durable calls: it awaits, or names something that does."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Await):
                return True
            if isinstance(inner, ast.Call):
                name = self._scope.full_name(inner.func) or ""
                if (
                    name in AWAITED
                    or name.startswith("outlast.workflow.blocking.")
                    or self._activity(inner.func)
                ):
                    return True
        return False

    def _try(self, node: ast.Try) -> None:
        waits = any(self._may_wait(one) for one in node.body)
        for handler in node.handlers:
            if waits and self._catches_all(handler.type) and not _raises(handler):
                code = "except:" if handler.type is None else f"except {ast.unparse(handler.type)}:"
                self._add(handler, "swallows", code, "`except Exception`, or `raise` at the end")
        self._children(node)

    def _may_wait(self, node: ast.AST) -> bool:
        kinds = (ast.Await, ast.AsyncFor, ast.AsyncWith, *((ast.Call,) if self._blocks else ()))
        return any(isinstance(inner, kinds) for inner in ast.walk(node))

    def _catches_all(self, caught: ast.expr | None) -> bool:
        if caught is None:
            return True
        kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
        return any(self._scope.full_name(kind) == "builtins.BaseException" for kind in kinds)

    def _statement(self, node: ast.Expr) -> None:
        call = node.value
        if isinstance(call, ast.Call):
            name = self._scope.full_name(call.func) or ""
            activity = self._activity(call.func)
            if name in AWAITED or activity:
                code = ast.unparse(call.func)
                if not self._blocks:
                    instead = f"await {code}(…)"
                elif activity:
                    instead = f"{code}.call(…)"
                else:
                    instead = f"blocking.{name.rpartition('.')[2]}(…)"
                self._add(call, "not-awaited", f"{code}(…)", instead)
        self._children(node)

    # --- calls and names --------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> None:
        name = self._scope.full_name(node.func)
        if name == _ANSWERED_ONCE:
            return  # what is computed once may come from anywhere
        if name is not None:
            rule = rule_of(name, called=True)
            if name == "random.Random" and not node.args:
                rule = RULES["random.random"]
            if rule is not None:
                self._rule(node, rule, f"{ast.unparse(node.func)}()")
                self._all([*node.args, *(one.value for one in node.keywords)])
                return
        if isinstance(node.func, ast.Attribute):
            self._method(node, node.func)
        elif isinstance(node.func, ast.Name):
            scope = self._scope.binding(node.func.id)
            made = None if scope is None else scope.classes.get(node.func.id)
            if made is not None:
                self._member(made, "__init__")
        self._children(node)

    def _method(self, node: ast.Call, function: ast.Attribute) -> None:
        rule = METHODS.get(function.attr)
        on = function.value
        if rule is not None:
            self._rule(node, rule, f"….{function.attr}()")
        elif function.attr in PATH_METHODS and isinstance(on, ast.Call):
            if self._scope.full_name(on.func) in ("pathlib.Path", "pathlib.PosixPath", "pathlib.WindowsPath"):
                self._rule(node, RULES["builtins.open"], f"{ast.unparse(on)}.{function.attr}()")
        elif function.attr in MUTATORS and isinstance(on, ast.Name) and self._is_shared(on.id, mutable=True):
            self._add(node, "global-state", f"{on.id}.{function.attr}()", _KEEP)

    def _name(self, node: ast.Name | ast.Attribute) -> None:
        name = self._scope.full_name(node)
        rule = None if name is None else rule_of(name, called=False)
        if rule is not None:
            self._rule(node, rule, ast.unparse(node))
            return
        if isinstance(node, ast.Name):
            scope = self._scope.binding(node.id)
            target = None if scope is None or node.id in scope.bound else scope.functions.get(node.id)
            if target is not None and not self._declared(target):
                self._reach(target)
            return
        self._attribute(node)
        self._children(node)

    def _attribute(self, node: ast.Attribute) -> None:
        """``self.method`` and ``Class.method``."""
        if not isinstance(node.value, ast.Name):
            return
        if node.value.id == self._self and self._owner is not None:
            self._member(self._owner, node.attr)
            return
        scope = self._scope.binding(node.value.id)
        owner = None if scope is None else scope.classes.get(node.value.id)
        if owner is not None:
            self._member(owner, node.attr)

    def _member(self, owner: ast.ClassDef, name: str, depth: int = 0) -> None:
        for statement in owner.body:
            if isinstance(statement, Function) and statement.name == name:
                if not self._declared(statement):
                    self._reach(statement)
                return
        for base in owner.bases:
            found = self.module.top.classes.get(base.id) if isinstance(base, ast.Name) else None
            if found is not None and depth < 10:
                self._member(found, name, depth + 1)

    def _declared(self, function: Function) -> bool:
        """Return whether a function is an activity, or an entry of a workflow, which is checked on its own."""
        for decorator in function.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = self._scope.full_name(target) or self.module.top.full_name(target) or ""
            if name.startswith(("outlast.activity.", "outlast.workflow.")):
                return True
        return self.module.top.functions.get(function.name) is function and self._is_activity(function.name)

    def _activity(self, function: ast.expr) -> bool:
        """Return whether an expression is an activity: ``charge`` or ``charge.with_options(…)``."""
        if isinstance(function, ast.Call) and isinstance(function.func, ast.Attribute):
            return function.func.attr == "with_options" and self._activity(function.func.value)
        if not isinstance(function, ast.Name):
            return False
        scope = self._scope.binding(function.id)
        if scope is None or function.id in scope.bound:
            return False
        if scope is self.module.top:
            return self._is_activity(function.id)
        target = scope.functions.get(function.id)
        return target is not None and any(
            (self._scope.full_name(one.func if isinstance(one, ast.Call) else one) or "")
            == "outlast.activity.defn"
            for one in target.decorator_list
        )

    # --- what was found ---------------------------------------------------------------------------------------------

    def _rule(self, node: ast.expr, rule: Rule, code: str) -> None:
        instead = rule.instead
        if rule.name == "sleep":
            instead = "blocking.sleep(…)" if self._blocks else "await workflow.sleep(…)"
        self._add(node, rule.name, code, instead)

    def _add(self, node: ast.stmt | ast.expr | ast.ExceptHandler, rule: str, code: str, instead: str) -> None:
        last = (node.end_lineno or node.lineno) if isinstance(node, ast.expr) else node.lineno
        lines = self.module.lines[node.lineno - 1 : last]
        if not any(allows(line, rule) for line in lines):
            self.found.add(Found(self.module.path, node.lineno, node.col_offset + 1, rule, code, instead))


_KEEP = "self, a local variable, or an activity"


def allows(line: str, rule: str) -> bool:
    """Return whether a line of source ends with ``# outlast: allow``, or ``allow[rule, …]`` of this rule."""
    _, mark, rest = line.partition("# outlast: allow")
    if not mark:
        return False
    if not rest.startswith("["):
        return True
    return rule in [name.strip() for name in rest[1:].partition("]")[0].split(",")]


def _raises(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(inner, ast.Raise) for statement in handler.body for inner in _flat(statement))


def _flat(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and what it contains, except functions that are only defined in it."""
    yield node
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, Function | ast.Lambda | ast.ClassDef):
            yield from _flat(inner)


_SPECIAL: dict[type[ast.AST], Callable[[Walker, Any], None]] = {
    ast.FunctionDef: Walker._nested,
    ast.AsyncFunctionDef: Walker._nested,
    ast.Lambda: Walker._lambda,
    ast.AnnAssign: Walker._annotated,
    ast.Assign: Walker._assigned,
    ast.Delete: Walker._assigned,
    ast.AugAssign: Walker._augmented,
    ast.Global: Walker._global,
    ast.With: Walker._with,
    ast.AsyncWith: Walker._with,
    ast.For: Walker._loop,
    ast.AsyncFor: Walker._children,
    ast.ListComp: Walker._comprehension,
    ast.GeneratorExp: Walker._comprehension,
    ast.Try: Walker._try,
    ast.TryStar: Walker._try,
    ast.Expr: Walker._statement,
    ast.Call: Walker._call,
    ast.Name: Walker._name,
    ast.Attribute: Walker._name,
}
