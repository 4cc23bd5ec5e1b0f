"""Names of a package that are imported at first use (PEP 562).

A process pays only for what it uses: code that declares workflows loads no database driver, and a client no worker.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names live in other modules.

    Args:
        package: The package's ``__name__``.
        homes: Names by the module that holds them. Submodules are listed under the package itself.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)  # the next time it is an ordinary attribute
        return value

    return __getattr__
