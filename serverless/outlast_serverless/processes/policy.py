"""The policy of processes: nothing runs unless it is allowed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from outlast_workflow.errors import InvalidOptionError

INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
LANGUAGES: Final = ("python", "js")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPolicy:
    """Which processes documents may start.

    Attributes:
        shell: Whether shell commands may run.
        scripts: The languages that may run, each with the command that runs a file: ``{"python": ["python3"]}``.
        environment: The variables of the worker that a process sees; all others only if its task sets them.
        cwd: The folder that a process begins in; the worker's own if ``None``.
        max_output_bytes: How much a process may write to each of stdout and stderr.
        grace: Seconds between the request to end and the kill.
    """

    shell: bool = False
    scripts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    environment: tuple[str, ...] = INHERITED
    cwd: str | None = None
    max_output_bytes: int = 1 << 20
    grace: float = 5.0

    def __post_init__(self) -> None:
        for language, command in self.scripts.items():
            if language not in LANGUAGES:
                raise InvalidOptionError(
                    f"scripts cannot be in {language!r:.40}: the DSL knows {' and '.join(LANGUAGES)}",
                    field="scripts",
                )
            if isinstance(command, str) or not command:
                raise InvalidOptionError(
                    f"the command of {language} must be a list, such as ['python3']", field="scripts"
                )
        if self.max_output_bytes <= 0:
            raise InvalidOptionError("max_output_bytes must be more than zero", field="max_output_bytes")
        if self.grace < 0:
            raise InvalidOptionError("grace must not be negative", field="grace")
