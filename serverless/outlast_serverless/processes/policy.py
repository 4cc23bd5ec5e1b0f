"""The policy of processes: nothing runs unless it is allowed here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from outlast_workflow.errors import InvalidOptionError

INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
LANGUAGES: Final = ("python", "js")
VOLUME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""The name of a volume that the engine keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPolicy:
    """Which processes documents may start.

    Attributes:
        shell: Whether shell commands may run.
        scripts: The languages that may run, each with the command that runs a file: ``{"python": ["python3"]}``.
        containers: The engine that runs containers, ``"podman"``, ``"docker"``, or its command as a list; ``None`` if
            none may run.
        container_options: Options that each ``run`` of the engine is given, such as ``--memory=512m``.
        mounts: What containers may mount: folders of the host, with all that is in them, and names of volumes.
        publish: The address of the host on which containers may publish ports, such as ``127.0.0.1``; ``None`` if they
            may publish none.
        stdio: The executables that calls may start as servers, such as ``"npx"``, with any arguments.
        environment: The variables of the worker that a process sees; all others only if its task sets them. Of a
            container, it is the engine that sees them.
        cwd: The folder that a process begins in; the worker's own if ``None``.
        max_output_bytes: How much a process may write to each of stdout and stderr.
        grace: Seconds between the request to end and the kill.
    """

    shell: bool = False
    scripts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    containers: str | Sequence[str] | None = None
    container_options: Sequence[str] = ()
    mounts: Sequence[str] = ()
    publish: str | None = None
    stdio: Sequence[str] = ()
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
        if isinstance(self.stdio, str):
            raise InvalidOptionError("stdio must be a list, such as ['npx']", field="stdio")
        if self.max_output_bytes <= 0:
            raise InvalidOptionError("max_output_bytes must be more than zero", field="max_output_bytes")
        if self.grace < 0:
            raise InvalidOptionError("grace must not be negative", field="grace")
        self._check_containers()

    def _check_containers(self) -> None:
        engine = self.engine
        if engine is not None and (not engine or not engine[0] or " " in engine[0]):
            raise InvalidOptionError(
                "containers must be 'podman', 'docker', or a list such as ['podman', '--remote']",
                field="containers",
            )
        for name in ("container_options", "mounts"):
            if isinstance(getattr(self, name), str):
                raise InvalidOptionError(f"{name} must be a list of texts", field=name)
        for mount in self.mounts:
            if not os.path.isabs(mount) and VOLUME.fullmatch(mount) is None:
                raise InvalidOptionError(
                    f"{mount!r:.100} can be mounted nowhere: give an absolute folder, or the name of a volume",
                    field="mounts",
                )
        if self.publish is not None:
            try:
                ip_address(self.publish)
            except ValueError:
                raise InvalidOptionError(
                    f"publish must be an address of this host, such as '127.0.0.1', not {self.publish!r:.40}",
                    field="publish",
                ) from None

    @property
    def engine(self) -> tuple[str, ...] | None:
        """The command of the engine, or ``None`` if no container may run."""
        if self.containers is None:
            return None
        return (self.containers,) if isinstance(self.containers, str) else tuple(self.containers)
