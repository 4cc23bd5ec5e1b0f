"""Ids in paths. The control plane leaves slashes and percent signs of a path encoded, so that an id may hold them."""

from __future__ import annotations

from typing import Annotated, TypeAlias
from urllib.parse import unquote

from pydantic import AfterValidator

PathText: TypeAlias = Annotated[str, AfterValidator(unquote)]
"""A part of a path, decoded."""
