"""``run: shell`` and ``run: script``: what their activities do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import orjson

from outlast import activity
from outlast_serverless.calls.heartbeats import beating
from outlast_serverless.calls.request import CallRequest, Filling
from outlast_serverless.interpreter.faults import fault
from outlast_serverless.jq import Evaluator
from outlast_serverless.processes import supervisor
from outlast_serverless.processes.policy import ProcessPolicy
from outlast_serverless.secrets import SecretSource

_SUFFIXES: Final = {"python": "script.py", "js": "script.mjs"}
_TOLD: Final = 500
"""How much of what a failed process wrote is told in its error."""


def process_activities(
    evaluator: Evaluator, secrets: SecretSource | None, policy: ProcessPolicy
) -> list[Any]:
    """Return the activities of ``run: shell`` and ``run: script``.

    Args:
        evaluator: Evaluates expressions.
        secrets: Where secrets come from.
        policy: What may run.
    """

    async def run(request: dict[str, Any], kind: str) -> Any:
        asked = CallRequest.of(request)
        filling = Filling(asked, evaluator, secrets)
        with filling.telling():
            arguments = await filling.arguments()
            described = _described(kind, arguments, asked, policy)
            if not asked.awaits:
                # It lives on by itself, and what it writes is not read.
                described["detached"] = True
            async with beating(asked.timeout):
                return _output(await _ended(described), asked)

    @activity.defn(name="serverless.shell")
    async def shell(request: dict[str, Any]) -> Any:
        return await run(request, "shell")

    @activity.defn(name="serverless.script")
    async def script(request: dict[str, Any]) -> Any:
        return await run(request, "script")

    return [shell, script]


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
                "configuration", "shell commands are not allowed here: ProcessPolicy(shell=True)", pointer
            )
        argv = ["sh", "-c", str(arguments.get("command")), "sh"]
    else:
        language = str(arguments.get("language"))
        command = policy.scripts.get("js" if language == "javascript" else language)
        if command is None:
            raise fault(
                "configuration",
                f"scripts in {language} are not allowed here: ProcessPolicy(scripts={{{language!r}: […]}})",
                pointer,
            )
        code = arguments.get("code")
        if not isinstance(code, str):
            raise fault(
                "configuration", "a script needs its `code`: its `source` cannot be fetched yet", pointer
            )
        file = {"name": _SUFFIXES["python" if language == "python" else "js"], "text": code}
        argv = [*command, None]
    environment = {name: os.environ[name] for name in policy.environment if name in os.environ}
    environment |= {str(name): _text(value) for name, value in (arguments.get("environment") or {}).items()}
    return {
        "argv": [*argv, *_flat(arguments.get("arguments"))],
        "file": file,
        "environment": environment,
        "cwd": policy.cwd,
        "stdin": "" if arguments.get("stdin") is None else _text(arguments["stdin"]),
        "limit": policy.max_output_bytes,
        "grace": policy.grace,
        "detached": False,
    }


def _flat(arguments: Any) -> list[str]:
    """Return arguments as a list; a mapping is ``--key value``."""
    if isinstance(arguments, dict):
        return [part for key, value in arguments.items() for part in (f"--{key}", _text(value))]
    return [_text(value) for value in arguments or ()]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


async def _supervised(described: dict[str, Any]) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(Path(supervisor.__file__)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
        start_new_session=True,
    )
    assert process.stdin is not None
    data = orjson.dumps(described)
    process.stdin.write(len(data).to_bytes(4, "big") + data)
    with contextlib.suppress(ConnectionError):
        await process.stdin.drain()
    return process


async def _ended(described: dict[str, Any]) -> dict[str, Any]:
    """Run a process to its end. Whoever cancels this ends the process, with all that it started."""
    process = await _supervised(described)
    rest = asyncio.ensure_future(_rest(process))
    try:
        answer = await asyncio.shield(rest)
    except asyncio.CancelledError:
        assert process.stdin is not None
        process.stdin.close()
        # The supervisor kills what does not end by itself, and ends then.
        await asyncio.shield(rest)
        raise
    found: dict[str, Any] = orjson.loads(answer or b'{"error": "its supervisor was killed"}')
    return found


async def _rest(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    answer = await process.stdout.read()
    await process.wait()
    process.stdin.close()
    return answer


def _output(found: dict[str, Any], asked: CallRequest) -> Any:
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
        told = found["stderr"].strip()[-_TOLD:]
        raise fault("runtime", f"the process {ended}" + (f": {told}" if told else ""), asked.pointer)
    return None if asked.returns == "none" else found[asked.returns]
