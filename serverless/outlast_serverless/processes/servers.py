"""Servers that a call starts for itself: which ones may run, and how they are started."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from typing import Any

from outlast_serverless.interpreter.faults import fault
from outlast_serverless.processes import stdio_supervisor
from outlast_serverless.processes.arguments import flat, text
from outlast_serverless.processes.policy import ProcessPolicy
from outlast_serverless.processes.supervised import supervised


def described_server(given: Any, policy: ProcessPolicy, pointer: str) -> dict[str, Any]:
    """Return what the supervisor of a server is told.

    Args:
        given: What stands in the document: ``command``, ``arguments`` and ``environment``.
        policy: Which servers may run.
        pointer: The task that starts it.

    Raises:
        Fault: The policy does not allow it, or it is not there.
    """
    if not isinstance(given, dict):
        raise fault("configuration", "the transport needs `http` or `stdio`", pointer)
    command = str(given.get("command"))
    if command not in policy.stdio:
        raise fault(
            "configuration",
            f"the server {command!r:.100} may not be started here: the worker needs `--allow-stdio`, or "
            f"ProcessPolicy(stdio=[{command!r:.100}])",
            pointer,
        )
    environment = {name: os.environ[name] for name in policy.environment if name in os.environ}
    # The document sets no PATH that makes another executable of the name.
    executable = shutil.which(command, path=environment.get("PATH", os.defpath))
    if executable is None:
        raise fault("configuration", f"the server {command!r:.100} is not there, or not executable", pointer)
    environment |= {str(name): text(value) for name, value in (given.get("environment") or {}).items()}
    return {
        "argv": [executable, *flat(given.get("arguments"))],
        "environment": environment,
        "cwd": policy.cwd,
        "grace": policy.grace,
    }


async def started(described: dict[str, Any], limit: int) -> asyncio.subprocess.Process:
    """Start a server under its supervisor, which ends it when its input ends.

    Args:
        described: What the supervisor is told.
        limit: How long a line of its output may be.
    """
    return await supervised(stdio_supervisor.__file__, described, stderr=subprocess.PIPE, limit=limit)
