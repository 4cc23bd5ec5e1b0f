"""The base of the option classes: slotted, compared by value, immutable."""

from __future__ import annotations

from typing import Any, ClassVar, Self


class Value:
    """An immutable value of named, slotted fields.

    A subclass lists its public fields in ``fields`` and calls :meth:`_set` at the end of its ``__init__``. Other slots
    (derived from the fields) take no part in comparison.
    """

    __slots__ = ("_hash",)

    fields: ClassVar[tuple[str, ...]] = ()

    def _set(self, values: dict[str, Any]) -> None:
        put = object.__setattr__
        for name, value in values.items():
            put(self, name, value)
        given = [values[name] for name in self.fields]
        key = tuple([value if value is None else _hashable(value) for value in given])
        put(self, "_hash", hash((type(self).__name__, key)))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, validated as a whole."""
        return type(self)(**{**self.given(), **changes})

    def given(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in self.fields}

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: make another with its with_… methods")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields)

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined,no-any-return]

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={value!r}"
            for name, value in self.given().items()
            if value is not None and name not in ("memo", "search_attributes")
        )
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.given())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _remade(cls: type[Value], given: dict[str, Any]) -> Value:
    return cls(**given)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return None
    return value
