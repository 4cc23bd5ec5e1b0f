"""Two lists of lines shown side by side, around their first difference."""

from __future__ import annotations

from collections.abc import Sequence


def first_difference(expected: Sequence[str], actual: Sequence[str]) -> int:
    """Return the first index at which two lists differ; the shorter length if one is a prefix of the other."""
    for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
        if left != right:
            return index
    return min(len(expected), len(actual))


def line_at(lines: Sequence[str], index: int) -> str:
    """Return a line, or ``nothing`` beyond the end."""
    return lines[index] if 0 <= index < len(lines) else "nothing"


def side_by_side(expected: Sequence[str], actual: Sequence[str], index: int, around: int = 4) -> str:
    """Return both lists around an index in two columns, with the index marked."""
    first = max(0, index - around)
    last = min(max(len(expected), len(actual), index + 1), index + around + 1)
    left = [line_at(expected, i) for i in range(first, last)]
    width = max(len("history"), *(len(line) for line in left))
    rows = [f"     {'#':>5}  {'history':<{width}}  code"]
    for i, line in enumerate(left, first):
        rows.append(f"  {'=>' if i == index else '  '} {i + 1:>5}  {line:<{width}}  {line_at(actual, i)}")
    return "\n".join(rows)
