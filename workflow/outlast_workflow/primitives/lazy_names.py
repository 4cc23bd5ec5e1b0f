"""What a package, a module or a class does about names that it does not hold (PEP 562).

A package imports its names at first use, so a process pays only for what it uses: code that declares workflows loads no
database driver, and a client no worker. A name that is nowhere raises an error; where other engines have it, it says
what is used here.

Type checkers must not see such a ``__getattr__``: they would accept any name. Put it under ``if not TYPE_CHECKING``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Iterable[str]], elsewhere: Iterable[str] = ()
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names live in other modules.

    Args:
        package: The package's ``__name__``.
        homes: Names by the module that holds them. Submodules are listed under the package itself.
        elsewhere: Public modules in which users look less often: the error of a name that is there says so.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            # Loaded only for a mistake.
            from outlast_workflow.primitives.other_members import absent

            raise absent(f"module {package!r}", package, name, sys.modules[package], elsewhere)
        if home == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)  # the next time it is an ordinary attribute
        return value

    return __getattr__


def names_of_module(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module.

    Args:
        module: Its ``__name__``.
    """

    def __getattr__(name: str) -> Any:
        from outlast_workflow.primitives.other_members import absent

        raise absent(f"module {module!r}", module, name, sys.modules[module])

    return __getattr__


def names_of_class(owner: str) -> Callable[[Any, str], Any]:
    """Return the ``__getattr__`` of a class.

    Args:
        owner: The class whose names are looked up, also for its twin of blocking code.
    """

    def __getattr__(self: Any, name: str) -> Any:
        from outlast_workflow.primitives.other_members import absent

        raise absent(f"{type(self).__name__!r} object", owner, name, self)

    return __getattr__
