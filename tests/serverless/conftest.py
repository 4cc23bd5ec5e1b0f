"""Tests of documents run in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.testing import VirtualLoop


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}
