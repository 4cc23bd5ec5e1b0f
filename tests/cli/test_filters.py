"""Which options of a listing leave something out, so that a bulk action may go ahead with them."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.cli.common.filters import OPTIONS, Chosen

NOTHING: dict[str, Any] = {name: False if kind is bool else None for name, (kind, _) in OPTIONS.items()}


@pytest.mark.parametrize(
    ("given", "empty"),
    [
        ({}, True),
        ({"latest": True}, True),
        ({"status": []}, True),
        ({"closed": True}, False),
        ({"open": True}, False),
        ({"attention": True}, False),
        ({"priority": 0}, False),
        ({"id": ""}, False),
        ({"type": "Order"}, False),
    ],
)
def test_every_value_that_is_given_is_a_filter(given: dict[str, Any], empty: bool) -> None:
    """Zero and an empty text are values; the text is refused later, with the reason."""
    assert Chosen({**NOTHING, **given}).is_empty is empty
