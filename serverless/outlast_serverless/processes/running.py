"""``run: shell``, ``run: script`` and ``run: container``: what their activities do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from outlast import activity
from outlast_activities.task_token import read_token
from outlast_serverless.calls.heartbeats import beating
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.jq import Evaluator
from outlast_serverless.processes.arguments import flat, text
from outlast_serverless.processes.containers import ENGINE_FAILED, described_container
from outlast_serverless.processes.policy import ProcessPolicy
from outlast_serverless.processes.supervised import ended
from outlast_serverless.processes.sweeping import Sweeper
from outlast_serverless.secrets import Masking, SecretSource

if TYPE_CHECKING:
    from outlast_serverless.calls.resources import Resource, Resources

_SUFFIXES: Final = {"python": "script.py", "js": "script.mjs"}
_LONGEST_SCRIPT: Final = 1 << 20
_TOLD: Final = 500
"""How much of what a failed process wrote is told in its error."""


def process_activities(
    evaluator: Evaluator,
    secrets: SecretSource | None,
    policy: ProcessPolicy,
    sweeper: Sweeper,
    resources: Resources,
) -> list[Any]:
    """Return the activities of ``run: shell``, ``run: script`` and ``run: container``.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        policy: What may run.
        sweeper: Removes containers some time after their ends.
        resources: Fetches scripts.
    """

    async def run(request: dict[str, Any], kind: str) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            arguments = await _arguments(kind, asked, filling, policy, resources)
            described = _described(kind, arguments, asked, policy)
            if not asked.awaits:
                # It lives on by itself, and what it writes is not read.
                described["detached"] = True
            async with beating(asked.timeout):
                return _output(await ended(described), asked, filling.masking)

    @activity.defn(name="serverless.shell")
    async def shell(request: dict[str, Any]) -> Any:
        return await run(request, "shell")

    @activity.defn(name="serverless.script")
    async def script(request: dict[str, Any]) -> Any:
        return await run(request, "script")

    @activity.defn(name="serverless.container")
    async def container(request: dict[str, Any]) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        again = read_token(activity.info().task_token)[2] > 1
        with filling.telling():
            arguments = await filling.arguments()
            described = described_container(arguments, asked, policy, filling.masking, again=again)
            try:
                async with beating(asked.timeout):
                    found = await ended(described)
                    return _output(_run_by_engine(found, asked, filling.masking), asked, filling.masking)
            finally:
                if described["container"]["swept"]:
                    sweeper.look()

    return [shell, script, container]


def _run_by_engine(found: dict[str, Any], asked: CallRequest, masking: Masking) -> dict[str, Any]:
    """Return how a container ended.

    Raises:
        Fault: The engine could not run it.
    """
    if found.get("code", 0) != 0 and (found["code"] == ENGINE_FAILED or not asked.awaits):
        told = masking.text(found["stderr"].strip())[-_TOLD:]
        raise fault("runtime", f"the engine could not run the container: {told}", asked.pointer)
    return found


async def _arguments(
    kind: str, asked: CallRequest, filling: Filling, policy: ProcessPolicy, resources: Resources
) -> Any:
    """Return the arguments filled in, with the code of a script that has to be fetched."""
    deferred = asked.deferred
    written = asked.value if deferred is None else deferred["value"]
    if kind != "script" or not isinstance(written, dict) or "source" not in written:
        return await filling.arguments()
    # What may not run is not fetched.
    _command_of(str(written.get("language")), policy, asked.pointer)
    place = "" if deferred is None else str(deferred["pointer"])
    rest = {name: value for name, value in written.items() if name != "source"}
    if deferred is not None:
        rest = await filling.filled(rest, place)
    source = written["source"]
    code = await resources.fetched(
        source, f"{place}/source", asked, filling, _script, most_bytes=_LONGEST_SCRIPT
    )
    return {**rest, "code": code}


def _script(resource: Resource) -> str:
    try:
        return resource.content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the script at {resource.url} is no text in UTF-8") from None


def _command_of(language: str, policy: ProcessPolicy, pointer: str) -> Sequence[str]:
    key = "js" if language == "javascript" else language
    command = policy.scripts.get(key)
    if command is None:
        raise fault(
            "configuration",
            f"scripts in {language} are not allowed here: the worker needs `--allow-script {key}`, or "
            f"ProcessPolicy(scripts={{{key!r}: […]}})",
            pointer,
        )
    return command


def _described(kind: str, arguments: Any, asked: CallRequest, policy: ProcessPolicy) -> dict[str, Any]:
    """Return what the supervisor is told to run.

    Raises:
        Fault: The policy does not allow it, or the arguments describe nothing.
    """
    pointer = asked.pointer
    if not isinstance(arguments, dict):
        raise fault("configuration", "what is to run is no object", pointer)
    file: dict[str, str] | None = None
    argv: list[str | None]
    if kind == "shell":
        if not policy.shell:
            raise fault(
                "configuration",
                "shell commands are not allowed here: the worker needs `--allow-shell`, or "
                "ProcessPolicy(shell=True)",
                pointer,
            )
        argv = ["sh", "-c", str(arguments.get("command")), "sh"]
    else:
        language = str(arguments.get("language"))
        command = _command_of(language, policy, pointer)
        code = arguments.get("code")
        if not isinstance(code, str):
            raise fault("configuration", "a script needs its `code`, or a `source` to fetch it from", pointer)
        file = {"name": _SUFFIXES["python" if language == "python" else "js"], "text": code}
        argv = [*command, None]
    environment = {name: os.environ[name] for name in policy.environment if name in os.environ}
    environment |= {str(name): text(value) for name, value in (arguments.get("environment") or {}).items()}
    return {
        "argv": [*argv, *flat(arguments.get("arguments"))],
        "file": file,
        "environment": environment,
        "cwd": policy.cwd,
        "stdin": "" if arguments.get("stdin") is None else text(arguments["stdin"]),
        "limit": policy.max_output_bytes,
        "grace": policy.grace,
        "detached": False,
    }


def _output(found: dict[str, Any], asked: CallRequest, masking: Masking) -> Any:
    """Return what of an ended process is the output.

    Raises:
        Fault: It could not be started, wrote too much, or failed where its code is not part of the output.
    """
    if "error" in found:
        raise fault("runtime", found["error"], asked.pointer)
    if not asked.awaits:
        return None
    if found["large"] is not None:
        raise fault(
            "runtime", f"the process wrote more to {found['large']} than the policy allows", asked.pointer
        )
    code = found["code"]
    if asked.returns == "code":
        return code
    if asked.returns == "all":
        return {"code": code, "stdout": found["stdout"], "stderr": found["stderr"]}
    if code != 0:
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        told = masking.text(found["stderr"].strip())[-_TOLD:]
        raise fault("runtime", f"the process {ended}" + (f": {told}" if told else ""), asked.pointer)
    return None if asked.returns == "none" else found[asked.returns]
