"""``outlast serverless run``, ``start``, ``describe``, ``suspend``, ``resume`` and ``worker``: runs of documents."""

from __future__ import annotations

import asyncio
import logging
import shlex
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypedDict

import typer

from outlast import Client, Worker
from outlast.cli.common.connection import with_client
from outlast.cli.common.exit_codes import CommandFailedError, Exit
from outlast.cli.common.options import AsJson, Timeout, Url, WorkflowId, database_url
from outlast.cli.common.output import document, show, table
from outlast.cli.common.start_options import GivenStartOptions, TaskQueue, with_start_options
from outlast.cli.common.stderr import tell
from outlast.cli.common.waiting import tell_lacks
from outlast.cli.schedules.showing import show_description
from outlast.text.parsing import waiting_time
from outlast.text.wording import pretty
from outlast_serverless.calls.policy import HttpPolicy
from outlast_serverless.given import given_document, input_value, load
from outlast_serverless.lifecycle.wanted import LifecycleEvents
from outlast_serverless.plan.kinds import is_url
from outlast_serverless.processes.policy import ProcessPolicy
from outlast_serverless.runtime.registry import parsed_name
from outlast_serverless.runtime.run import DocumentRun
from outlast_serverless.runtime.runtime import Runtime
from outlast_serverless.schedules.scheduler import workflow_id_of
from outlast_serverless.schedules.specs import schedule_id_of
from outlast_serverless.secrets import Secrets
from outlast_serverless.state_output import show_state, tell_attention
from outlast_workflow.errors import (
    FaultedError,
    InvalidOptionError,
    ScheduleNotFoundError,
    WorkflowNotFoundError,
)
from outlast_workflow.options.start import DEFAULT_TASK_QUEUE
from outlast_workflow.primitives.times import to_datetime

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A document, as YAML or JSON.", show_default=False)
]
RawInput = Annotated[
    str | None,
    typer.Option(
        "--input", metavar="JSON", help="The input in JSON, or @ and the file it is in.", show_default=False
    ),
]
AllowShell = Annotated[
    bool, typer.Option("--allow-shell", help="Let documents run shell commands.", show_default=False)
]
AllowScript = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-script",
        metavar="LANGUAGE[=COMMAND]",
        help="Let documents run scripts in python or js, with this command; repeatable.",
        show_default=False,
    ),
]
AllowContainers = Annotated[
    str | None,
    typer.Option(
        "--allow-containers",
        metavar="ENGINE",
        help="Let documents run containers by this engine, such as podman or docker.",
        show_default=False,
    ),
]
AllowMount = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-mount",
        metavar="FOLDER",
        help="Let containers mount this folder, or the volume of this name; repeatable.",
        show_default=False,
    ),
]
AllowPublish = Annotated[
    str | None,
    typer.Option(
        "--allow-publish",
        metavar="ADDRESS",
        help="Let containers publish ports on this address of the host.",
        show_default=False,
    ),
]
AllowStdio = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-stdio",
        metavar="COMMAND",
        help="Let calls of MCP start this executable as a server; repeatable.",
        show_default=False,
    ),
]
SecretsEnv = Annotated[
    str | None,
    typer.Option(
        "--secrets-env",
        metavar="PREFIX",
        help="Take secrets from the environment variables that begin with it.",
        show_default=False,
    ),
]
DenyPrivate = Annotated[
    bool, typer.Option("--deny-private", help="Deny calls of addresses that are not public.")
]
AllowFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-files",
        metavar="FOLDER",
        help="Let documents fetch resources from the files of this folder; repeatable.",
        show_default=False,
    ),
]
Catalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="URL|FOLDER",
        help="The default catalog, for functions such as log:1.0.0@default.",
        show_default=False,
    ),
]
Lifecycle = Annotated[
    list[str] | None,
    typer.Option(
        "--lifecycle",
        metavar="bus|URL",
        help="Send the lifecycle events of runs and tasks there; repeatable.",
        show_default=False,
    ),
]
NewId = Annotated[
    str | None, typer.Option("--id", help="The workflow id; by default a new UUID.", show_default=False)
]


def run(
    file: File,
    input: RawInput = None,
    id: NewId = None,
    timeout: Timeout = None,
    allow_shell: AllowShell = False,
    allow_script: AllowScript = None,
    allow_containers: AllowContainers = None,
    allow_mount: AllowMount = None,
    allow_publish: AllowPublish = None,
    allow_stdio: AllowStdio = None,
    secrets_env: SecretsEnv = None,
    deny_private: DenyPrivate = False,
    allow_files: AllowFiles = None,
    catalog: Catalog = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Run a document with a worker of its own, and print its output. Without --url its database is deleted again."""
    loaded, value, longest = load(file), input_value(input), waiting_time(timeout)
    target = None if url is None else database_url(url)
    policies = _policies(
        allow_shell,
        allow_script,
        allow_stdio,
        secrets_env,
        deny_private,
        containers=allow_containers,
        mounts=allow_mount,
        publish=allow_publish,
        files=allow_files,
        catalog=catalog,
    )

    async def work(target: str) -> None:
        async with Client.connect(target) as client, Runtime(client, **policies) as runtime:
            started = await runtime.start(loaded, value, id=id, task_queue=_OWN_QUEUE, check=True)
            worker = Worker(
                client,
                task_queue=_OWN_QUEUE,
                workflows=runtime.workflows,
                activities=runtime.activities,
            )
            async with worker:
                watching = asyncio.create_task(tell_attention(started))
                try:
                    await _print_result(started, longest, json=json)
                finally:
                    watching.cancel()
                    await asyncio.gather(watching, return_exceptions=True)

    # What fails is printed once, as the error of the run.
    logging.getLogger("outlast").addHandler(logging.NullHandler())
    if target is not None:
        asyncio.run(work(target))
        return
    with tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        asyncio.run(work(f"sqlite:///{folder}/outlast.db"))


_OWN_QUEUE = "serverless-run"
"""The task queue of what ``outlast serverless run`` runs: no other worker takes it."""


@with_start_options
def start(
    named: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAMESPACE/NAME[:VERSION]",
            help="A document in a file, or a registered one; without a version the latest.",
            show_default=False,
        ),
    ],
    input: RawInput = None,
    id: NewId = None,
    task_queue: TaskQueue = DEFAULT_TASK_QUEUE,
    *,
    start: GivenStartOptions,
    secrets_env: SecretsEnv = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the output and print it.")] = False,
    timeout: Timeout = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Start a document. `outlast serverless worker`, or a worker with a `Runtime`, runs it."""
    if timeout is not None and not wait:
        raise InvalidOptionError(
            "timeout limits --wait: give both, or --execution-timeout to bound the workflow", field="timeout"
        )
    wanted, value, longest = given_document(named), input_value(input), waiting_time(timeout)
    options = start.options()
    # A schema that is not in the document is fetched to check the input, maybe with a secret.
    secrets = None if secrets_env is None else Secrets.from_env(secrets_env)

    async def work(client: Client) -> None:
        async with Runtime(client, secrets=secrets) as runtime:
            loaded = await runtime.document(wanted) if isinstance(wanted, str) else wanted
            started = await runtime.start(
                loaded, value, id=id, task_queue=task_queue, options=options, check=True
            )
        if wait:
            await tell_lacks(client, started.id)
            await _print_result(started, longest, json=json)
            return
        name = f"{loaded.namespace}/{loaded.name}:{loaded.version}"
        if json:
            document({"workflow_id": started.id, "run_id": started.handle.run_id, "document": name})
        else:
            show(f"started {started.id}: {name}")
        await tell_lacks(client, started.id)

    with_client(url, work, makes=True)


def register(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Documents, as YAML or JSON.", show_default=False)
    ],
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Register documents, so that they can be started by name. A version keeps its content for ever."""
    loaded = [load(file) for file in files]

    async def work(client: Client) -> None:
        runtime = Runtime(client)
        for one in loaded:
            new = await runtime.register(one)
            name = f"{one.namespace}/{one.name}:{one.version}"
            if json:
                document({"document": name, "digest": one.digest, "new": new})
            else:
                show(f"{'registered' if new else 'unchanged:'} {name} {one.digest[:12]}")

    with_client(url, work, makes=True)


def list_(url: Url = None, json: AsJson = False) -> None:
    """List the documents that are registered."""

    async def work(client: Client) -> None:
        found = [one async for one in Runtime(client).documents()]
        if json:
            for one in found:
                document(one._asdict())
        elif found:
            rows = table("DOCUMENT", "VERSION", "DSL", "DIGEST", "REGISTERED", drop=("DIGEST",))
            for one in found:
                registered = to_datetime(one.registered_at).isoformat(timespec="seconds")
                rows.add_row(f"{one.namespace}/{one.name}", one.version, one.dsl, one.digest[:12], registered)
            show(rows)
        else:
            show("no documents are registered")

    with_client(url, work)


def show_source(
    name: Annotated[
        str,
        typer.Argument(metavar="NAMESPACE/NAME[:VERSION]", help="A registered document.", show_default=False),
    ],
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Print a registered document as it was given; with --json its definition."""

    async def work(client: Client) -> None:
        found = await Runtime(client).document(name)
        if json:
            document(
                {
                    "document": f"{found.namespace}/{found.name}:{found.version}",
                    "definition": found.definition,
                }
            )
        else:
            typer.echo(found.source, nl=not found.source.endswith("\n"))

    with_client(url, work)


def schedule(
    name: Annotated[
        str,
        typer.Argument(metavar="NAMESPACE/NAME[:VERSION]", help="A registered document.", show_default=False),
    ],
    state: Annotated[
        str, typer.Argument(metavar="on|off|show", help="Whether it is started.", show_default=False)
    ],
    task_queue: TaskQueue = DEFAULT_TASK_QUEUE,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Start a registered document whenever its `schedule` says, or no longer, or show when."""
    if state not in ("on", "off", "show"):
        raise InvalidOptionError(f"the state must be on, off or show, not {state!r:.40}", field="state")

    async def work(client: Client) -> None:
        runtime = Runtime(client)
        namespace, plain, _ = parsed_name(name)
        if state == "show":
            await _show_schedule(client, namespace, plain, json=json)
            return
        if state == "on":
            async with runtime:
                schedule_id = (await runtime.schedule(name, task_queue=task_queue)).id
        else:
            schedule_id = await runtime.unschedule(name)
        if json:
            document({"schedule_id": schedule_id, "scheduled": state == "on"})
        elif state == "on":
            show(f"scheduled {name}: `outlast serverless schedule {name} show` says when")
        else:
            show(f"{name} is no longer scheduled")

    with_client(url, work)


async def _show_schedule(client: Client, namespace: str, name: str, *, json: bool) -> None:
    schedule_id = schedule_id_of(namespace, name)
    try:
        described = await client.schedules.handle(schedule_id).describe()
    except ScheduleNotFoundError:
        run = DocumentRun(client.handle(workflow_id_of(namespace, name)), client.runtime)
        try:
            state = await run.describe()
        except WorkflowNotFoundError:
            raise _not_scheduled(namespace, name) from None
        if state.phase in ("completed", "faulted", "cancelled"):
            raise _not_scheduled(namespace, name) from None
        if json:
            document(asdict(state))
        else:
            show_state(state, to_datetime(client.runtime.environment.clock.now()))
        return
    if json:
        document(described)
    else:
        show_description(described, to_datetime(client.runtime.environment.clock.now()))


def _not_scheduled(namespace: str, name: str) -> CommandFailedError:
    named = f"{namespace}/{name}"
    return CommandFailedError(
        f"{named} is not scheduled: `outlast serverless schedule {named} on` starts it whenever its `schedule` says",
        Exit.NOT_FOUND,
    )


def describe(workflow_id: WorkflowId, url: Url = None, json: AsJson = False) -> None:
    """Show where a run of a document stands: its open tasks, its deadlines, its error. No worker is needed."""

    async def work(client: Client) -> None:
        state = await DocumentRun(client.handle(workflow_id), client.runtime).describe()
        if json:
            document(asdict(state))
        else:
            show_state(state, to_datetime(client.runtime.environment.clock.now()))

    with_client(url, work)


def suspend(workflow_id: WorkflowId, url: Url = None, json: AsJson = False) -> None:
    """Let a run begin no further task. What is under way goes on, and deadlines do, too."""
    _signalled(workflow_id, url, json=json, suspends=True)


def resume(workflow_id: WorkflowId, url: Url = None, json: AsJson = False) -> None:
    """Let a suspended run go on."""
    _signalled(workflow_id, url, json=json, suspends=False)


def worker(
    task_queue: Annotated[
        list[str] | None,
        typer.Option("--task-queue", help="A task queue to serve (default: `default`); repeatable."),
    ] = None,
    allow_shell: AllowShell = False,
    allow_script: AllowScript = None,
    allow_containers: AllowContainers = None,
    allow_mount: AllowMount = None,
    allow_publish: AllowPublish = None,
    allow_stdio: AllowStdio = None,
    secrets_env: SecretsEnv = None,
    deny_private: DenyPrivate = False,
    allow_files: AllowFiles = None,
    catalog: Catalog = None,
    lifecycle: Lifecycle = None,
    url: Url = None,
    json: AsJson = False,
) -> None:
    """Run documents until SIGINT or SIGTERM."""
    policies = _policies(
        allow_shell,
        allow_script,
        allow_stdio,
        secrets_env,
        deny_private,
        containers=allow_containers,
        mounts=allow_mount,
        publish=allow_publish,
        files=allow_files,
        catalog=catalog,
    )
    sinks = [LifecycleEvents(to=None if one == "bus" else one) for one in lifecycle or ()]

    async def work(client: Client) -> None:
        async with Runtime(client, **policies, lifecycle=sinks) as runtime:
            made = Worker(
                client,
                task_queue=task_queue or DEFAULT_TASK_QUEUE,
                workflows=runtime.workflows,
                activities=runtime.activities,
            )
            await made.run(started=lambda: _say_hello(made, json=json))
            if json:
                document({"event": "stopped", "worker_id": made.worker_id})

    with_client(url, work, makes=True)


def _say_hello(worker: Worker, *, json: bool) -> None:
    queues = list(worker.settings.task_queues)
    if json:
        document({"event": "started", "worker_id": worker.worker_id, "task_queues": queues})
    else:
        tell(f"worker {worker.worker_id} runs documents on {', '.join(queues)}; Ctrl-C stops it")


class _Policies(TypedDict):
    secrets: Secrets | None
    http: HttpPolicy
    processes: ProcessPolicy
    catalog: str | Path | None


def _policies(
    shell: bool,
    scripts: list[str] | None,
    servers: list[str] | None,
    secrets_env: str | None,
    deny_private: bool,
    *,
    containers: str | None,
    mounts: list[str] | None,
    publish: str | None,
    files: list[str] | None,
    catalog: str | None,
) -> _Policies:
    """Return what options say of policies and secrets.

    Raises:
        InvalidOptionError: A language is not known, or something can be mounted or published nowhere.
    """
    usual = {"python": sys.executable, "js": "node"}
    commands: dict[str, list[str]] = {}
    for text in scripts or ():
        language, given, command = text.partition("=")
        commands[language] = shlex.split(command) if given else [usual.get(language, "")]
    return {
        "secrets": None if secrets_env is None else Secrets.from_env(secrets_env),
        "http": HttpPolicy(deny_private=deny_private, files=tuple(files or ())),
        "processes": ProcessPolicy(
            shell=shell,
            scripts=commands,
            stdio=servers or (),
            containers=None if containers is None else shlex.split(containers),
            mounts=mounts or (),
            publish=publish,
        ),
        "catalog": catalog if catalog is None or is_url(catalog) else Path(catalog),
    }


async def _print_result(started: DocumentRun, longest: float | None, *, json: bool) -> None:
    try:
        output = await started.result(timeout=longest)
    except FaultedError as faulted:
        if not json:
            raise
        document({"workflow_id": started.id, "phase": "faulted", "error": faulted.error})
        raise typer.Exit(1) from None
    if json:
        document({"workflow_id": started.id, "phase": "completed", "output": output})
    else:
        show(pretty(output))


def _signalled(workflow_id: str, url: str | None, *, json: bool, suspends: bool) -> None:
    async def work(client: Client) -> None:
        found = DocumentRun(client.handle(workflow_id), client.runtime)
        await (found.suspend() if suspends else found.resume())
        if json:
            document({"workflow_id": workflow_id, "suspended": suspends})
        else:
            # It does so once a worker handles that.
            show(f"{workflow_id} is told to {'suspend' if suspends else 'resume'}")

    with_client(url, work)
