"""Versions of a document: semantic ones, and which is the latest."""

from __future__ import annotations

from collections.abc import Iterable

from semver import Version


def latest(versions: Iterable[str]) -> str | None:
    """Return the highest version; a pre-release only if there is nothing else. ``None`` if there are none.

    Versions that differ only in their build are equal to the standard; the later text of them is taken, so that the
    answer does not depend on the order.

    Args:
        versions: Semantic versions.
    """
    read = [(Version.parse(text), text) for text in versions]
    released = [one for one in read if one[0].prerelease is None]
    chosen = max(released or read, default=None)
    return None if chosen is None else chosen[1]
