"""``run: container``: what the engine is told. It is a list of arguments, and no shell of the host reads it.

A container has a label that names the execution it is of. By it whoever ends the container finds it, also a worker
that runs the task again after another one has died. Its variables are in a file that only the engine reads, so that no
list of processes shows them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from outlast_serverless.calls.request import CallRequest
from outlast_serverless.interpreter.data_flow import duration_seconds
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.processes.arguments import flat, text
from outlast_serverless.processes.policy import VOLUME, ProcessPolicy
from outlast_serverless.secrets import Masking

ENGINE_VARIABLES: Final = (
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "REGISTRY_AUTH_FILE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
)
"""The variables of the worker by which an engine finds its configuration."""
EXECUTION: Final = "outlast.execution"
"""The label that tells the containers of one execution of a task from all others."""
REMOVE_AFTER: Final = "outlast.remove-after"
"""The label of a container that is removed some time after its end: the seconds."""
ENGINE_FAILED: Final = 125
"""How an engine exits that could not run a container."""

_PULL: Final = {"ifNotPresent": "missing", "always": "always", "never": "never"}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PART: Final = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?:(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*|\[[0-9a-fA-F:]+\])(?::\d+)?/)?{_PART}(?:/{_PART})*"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_TRANSPORTS: Final = (
    "containers-storage:",
    "dir:",
    "docker-archive:",
    "docker-daemon:",
    "oci:",
    "oci-archive:",
    "ostree:",
    "sif:",
    "tarball:",
)
"""What looks like the name of an image, and is a file of the host."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PORT: Final = re.compile(r"(\d{1,5})(/(?:tcp|udp|sctp))?")
_MOST_PORTS: Final = 65_535


def described_container(
    arguments: dict[str, Any], asked: CallRequest, policy: ProcessPolicy, masking: Masking, *, again: bool
) -> dict[str, Any]:
    """Return what the supervisor is told to run.

    Args:
        arguments: What stands under ``container``, filled in.
        asked: The process.
        policy: What may run.
        masking: Knows the secrets that are among the arguments.
        again: Whether an earlier attempt may have left a container behind.

    Raises:
        Fault: The policy does not allow it, or the arguments describe no container.
    """
    try:
        return _described(arguments, asked, policy, masking, again)
    except ValueError as error:
        raise fault("configuration", masking.text(str(error)), asked.pointer) from None


def _described(
    arguments: dict[str, Any], asked: CallRequest, policy: ProcessPolicy, masking: Masking, again: bool
) -> dict[str, Any]:
    if policy.engine is None:
        raise ValueError(
            "containers are not allowed here: the worker needs `--allow-containers podman`, or "
            "ProcessPolicy(containers='podman')"
        )
    execution = str(uuid5(NAMESPACE_OID, asked.key))
    lifetime = arguments.get("lifetime") or {}
    cleanup = lifetime.get("cleanup", "never")
    stdin = arguments.get("stdin")
    if stdin is not None and not asked.awaits:
        raise ValueError("a container that is not waited for reads no `stdin`: leave out `await: false`")
    options = ["--name", _name(arguments, asked, execution), "--label", f"{EXECUTION}={execution}"]
    options += ["--label", f"outlast.document={asked.document}", "--label", f"outlast.task={asked.pointer}"]
    options += [f"--pull={_PULL[arguments.get('pullPolicy', 'ifNotPresent')]}", "--quiet"]
    if not asked.awaits:
        options.append("--detach")
    if stdin is not None:
        options.append("--interactive")
    if cleanup == "always":
        options.append("--rm")
    elif cleanup == "eventually":
        after = duration_seconds(lifetime.get("after"), asked.pointer)
        options += ["--label", f"{REMOVE_AFTER}={max(after, 0.0):g}"]
    for published in _ports(arguments.get("ports"), policy):
        options += ["--publish", published]
    for mount in _mounts(arguments.get("volumes"), policy):
        options += ["--mount", mount]
    file, shown = _environment(arguments.get("environment"), masking)
    options += shown
    # What the policy says comes last, so that it counts.
    options += policy.container_options
    argv: list[str | None] = [*policy.engine, "run", *options]
    if file:
        argv += ["--env-file", None]
    given = flat(arguments.get("arguments"))
    command = arguments.get("command")
    image = _image(arguments.get("image"))
    # A command is one of the image's own shell, as a shell command is one of the host's.
    argv += (
        [image, *given]
        if command is None
        else ["--entrypoint", "sh", image, "-c", text(command), "sh", *given]
    )
    names = {*policy.environment, *ENGINE_VARIABLES}
    return {
        "argv": argv,
        "file": {"name": "environment", "text": file} if file else None,
        "environment": {name: os.environ[name] for name in names if name in os.environ},
        "cwd": policy.cwd,
        "stdin": "" if stdin is None else text(stdin),
        "limit": policy.max_output_bytes,
        "grace": policy.grace,
        "detached": False,
        "container": {
            "engine": list(policy.engine),
            "label": f"{EXECUTION}={execution}",
            "remove": cleanup == "always",
            "clear": again,
            "swept": cleanup == "eventually",
        },
    }


def _image(image: Any) -> str:
    if not isinstance(image, str) or _IMAGE.fullmatch(image) is None or image.startswith(_TRANSPORTS):
        raise ValueError(f"{image!r:.100} is no name of an image, such as `docker.io/library/alpine:3`")
    return image


def _name(arguments: dict[str, Any], asked: CallRequest, execution: str) -> str:
    given = arguments.get("name")
    if given is None or given == "":
        head, _, _ = asked.document.partition(":")
        namespace, _, name = head.partition("/")
        task = re.sub(r"[^A-Za-z0-9_.-]", "-", asked.name)[:64]
        return f"{name}-{execution}.{namespace}-{task}"
    if not isinstance(given, str) or _NAME.fullmatch(given) is None:
        raise ValueError(
            f"{given!r:.100} cannot be the name of a container: it needs letters, digits, `_`, `.` and `-`"
        )
    return given


def _ports(ports: Any, policy: ProcessPolicy) -> Iterator[str]:
    for host, inside in (ports or {}).items():
        if policy.publish is None:
            raise ValueError("no port may be published here: ProcessPolicy(publish='127.0.0.1')")
        found = _PORT.fullmatch(str(inside))
        ours = _PORT.fullmatch(str(host))
        numbers = [int(one[1]) for one in (ours, found) if one is not None]
        if found is None or ours is None or ours[2] or not all(0 < one <= _MOST_PORTS for one in numbers):
            raise ValueError(
                f"`{host}: {inside}` is no pair of ports, that of the host and that of the container"
            )
        address = ip_address(policy.publish)
        bound = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
        yield f"{bound}:{host}:{inside}"


def _mounts(volumes: Any, policy: ProcessPolicy) -> Iterator[str]:
    for source, target in (volumes or {}).items():
        inside, _, mode = str(target).partition(":")
        if (
            not inside.startswith("/")
            or mode not in ("", "ro", "rw")
            or any(one in f"{source}{inside}" for one in ',"\n')
        ):
            raise ValueError(
                f"`{source}: {target}` is no volume: give a folder of the host and an absolute one of the container"
            )
        kind, found = ("volume", source) if VOLUME.fullmatch(source) else ("bind", os.path.realpath(source))
        if not _allowed(source, found, kind, policy):
            raise ValueError(f"{source} may not be mounted here: ProcessPolicy(mounts=[{source!r}])")
        yield f"type={kind},source={found},target={inside}" + (",readonly" if mode == "ro" else "")


def _allowed(source: str, found: str, kind: str, policy: ProcessPolicy) -> bool:
    if kind == "volume":
        return source in policy.mounts
    if not os.path.isabs(source) or any(one in found for one in ',"\n'):
        return False
    folders = [os.path.realpath(one) for one in policy.mounts if os.path.isabs(one)]
    # What a link of an allowed folder points to is allowed only if it is within one, too.
    return any(os.path.commonpath((one, found)) == one for one in folders)


def _environment(variables: Any, masking: Masking) -> tuple[str, list[str]]:
    """Return the file of variables, and options for those that a file cannot hold."""
    lines, options = [], []
    for name, value in (variables or {}).items():
        if _VARIABLE.fullmatch(name) is None:
            raise ValueError(f"{name!r:.100} cannot be the name of a variable")
        written = text(value)
        if "\0" in written:
            raise ValueError(f"the variable {name} has a zero byte")
        if written.splitlines() in ([], [written]):
            lines.append(f"{name}={written}\n")
        elif masking.text(written) == written:
            options += ["--env", f"{name}={written}"]
        else:
            raise ValueError(
                f"the variable {name} has a secret in several lines, which an engine takes only where every process "
                "sees it: give it as `stdin`"
            )
    return "".join(lines), options
