"""A module as its source shows it: what each scope binds, and what a name resolves to."""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

Function = ast.FunctionDef | ast.AsyncFunctionDef
_OPENS_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_MUTABLE = {"list", "dict", "set", "defaultdict", "OrderedDict", "Counter", "deque"}


class Scope:
    """The names that a module, a function or a lambda binds.

    The names of a class are in no scope here, because its methods do not see them.

    Attributes:
        imports: Imported names, with their full names.
        functions: Functions that are defined here.
        classes: Classes that are defined here.
        bound: All other names that are bound here.
        sets: Those of them that hold only a set.
        mutable: Those that hold a list, a dict or another container.
    """

    def __init__(self, node: ast.AST, outer: Scope | None) -> None:
        self.node = node
        self.outer = outer
        self.imports: dict[str, str] = {}
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.bound: set[str] = set()
        self.sets: set[str] = set()
        self.mutable: set[str] = set()
        self._globals: set[str] = set()
        self._times: Counter[str] = Counter()
        arguments = getattr(node, "args", None)
        if isinstance(arguments, ast.arguments):
            self.bound.update(one.arg for one in ast.walk(arguments) if isinstance(one, ast.arg))
        for inner in _inside(node):
            self._bind(inner)
        self.bound -= self._globals
        self.sets = {name for name in self.sets if self._times[name] == 1}

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, Function):
            self.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.imports[alias.asname or alias.name] = (
                    f"{'.' * node.level}{node.module or ''}.{alias.name}"
                )
        elif isinstance(node, ast.Global):
            self._globals.update(node.names)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)
            self._times[node.id] += 1
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            self.bound.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if is_set(node.value):
                self.sets.update(names)
            if is_mutable(node.value):
                self.mutable.update(names)

    def binding(self, name: str) -> Scope | None:
        """Return the scope that binds a name, in Python's order of lookup; ``None`` for a builtin."""
        scope: Scope | None = self
        while scope is not None:
            if (
                name in scope.bound
                or name in scope.imports
                or name in scope.functions
                or name in scope.classes
            ):
                return scope
            scope = scope.outer
        return None

    def full_name(self, node: ast.expr) -> str | None:
        """Return the full name of an expression that is imported or a builtin, such as ``datetime.datetime.now``."""
        if isinstance(node, ast.Attribute):
            base = self.full_name(node.value)
            return None if base is None else f"{base}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        scope = self.binding(node.id)
        if scope is None:
            return f"builtins.{node.id}"
        return None if node.id in scope.bound else scope.imports.get(node.id)


class Module:
    """One source file."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self.scopes: dict[ast.AST, Scope] = {}
        self.owners: dict[ast.AST, ast.ClassDef] = {}
        self.top = self._open(self.tree, None)
        self._at = {
            (min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.name): node
            for node in self.scopes
            if isinstance(node, Function)
        }

    def _open(self, node: ast.AST, outer: Scope | None) -> Scope:
        scope = self.scopes[node] = Scope(node, outer)
        for inner in _inside(node):
            self._enter(inner, scope)
        return scope

    def _enter(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.ClassDef):
            for inner in _inside(node):
                if isinstance(inner, Function):
                    self.owners[inner] = node
                self._enter(inner, scope)
        elif isinstance(node, _OPENS_SCOPE):
            self._open(node, scope)

    def function(self, first_line: int, name: str) -> Function | None:
        """Return a function by the line where its code starts, decorators included, and its name."""
        return self._at.get((first_line, name))


@lru_cache(maxsize=16)
def module_of(path: str) -> Module | None:
    """Return the module of a file; ``None`` if its source cannot be read."""
    text = "".join(linecache.getlines(path))
    if not text:
        return None
    try:
        return Module(path, text)
    except SyntaxError:
        # The file is not what was imported.
        return None


def is_set(node: ast.expr) -> bool:
    """Return whether an expression is recognisably a set."""
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("set", "frozenset")
    )


def is_mutable(node: ast.expr) -> bool:
    """Return whether an expression is recognisably a mutable container."""
    if isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
    return name in _MUTABLE


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope: inner scopes as well, but not their contents."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, Function | ast.ClassDef):
        waiting = [*node.body]
    elif isinstance(node, ast.Lambda):
        waiting = [node.body]
    while waiting:
        inner = waiting.pop()
        yield inner
        if isinstance(inner, _OPENS_SCOPE):
            waiting += [*getattr(inner, "decorator_list", ())]
        else:
            waiting += ast.iter_child_nodes(inner)
