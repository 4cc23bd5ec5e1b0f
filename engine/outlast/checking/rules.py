"""The rules of the static checks: what workflow code should not do, why, and what to use instead, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WHY: Final = {
    "clock": "reads a clock, which shows another time on each replay",
    "random": "gives another value on each replay",
    "io": "reaches out of the workflow, and would do so again on each replay",
    "process": "starts or signals a process, and would do so again on each replay",
    "thread": "runs code next to the workflow, in an order that no replay repeats",
    "environment": "is not the same on every machine and at every replay",
    "asyncio": "leaves the workflow's own event loop, which is all that replay knows",
    "sleep": "blocks the worker, and is not recorded",
    "set-order": "goes through a set, whose order differs from process to process, and asks for something at each step",
    "global-state": "changes what all runs of the process share, and what no replay rebuilds",
    "swallows": "catches cancellation, continue-as-new and eviction too, and does not raise them again",
    "not-awaited": "asks for something and does not wait for it",
}
"""Each rule's name, and what is wrong with what it finds."""

ACTIVITY: Final = "an activity"
_NOW: Final = "workflow.now()"
_RANDOM: Final = "workflow.random()"
_INPUT: Final = "an argument of the workflow, or workflow.side_effect(…)"


@dataclass(slots=True, frozen=True)
class Rule:
    """What is wrong with a name in workflow code, and what to use instead."""

    name: str
    instead: str


def _rules(name: str, instead: str, prefix: str, names: str) -> dict[str, Rule]:
    """Return one rule for several names.

    Args:
        name: The rule's name, a key of :data:`WHY`.
        instead: What to use instead.
        prefix: Comes before each name.
        names: The names, separated by spaces.
    """
    return {f"{prefix}{one}": Rule(name, instead) for one in names.split()}


NAMES: Final[dict[str, Rule]] = {
    **_rules(
        "clock",
        _NOW,
        "time.",
        "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns ctime localtime "
        "gmtime",
    ),
    **_rules("clock", _NOW, "datetime.", "datetime.now datetime.utcnow datetime.today date.today"),
    **_rules("sleep", "", "", "time.sleep"),
    **_rules("random", "workflow.uuid4()", "uuid.", "uuid1 uuid4 uuid6 uuid7"),
    **_rules(
        "random",
        _RANDOM,
        "random.",
        "random randint randrange choice choices sample shuffle uniform gauss triangular betavariate expovariate "
        "normalvariate getrandbits randbytes SystemRandom seed",
    ),
    "os.urandom": Rule("random", "workflow.random().randbytes(…)"),
    **_rules("environment", _INPUT, "os.", "environ environb getenv getpid getlogin cpu_count uname getcwd"),
    **_rules("environment", _INPUT, "", "platform.node socket.gethostname getpass.getuser"),
    **_rules("io", ACTIVITY, "builtins.", "open input"),
    **_rules(
        "io",
        ACTIVITY,
        "os.",
        "open listdir scandir walk remove unlink rename replace mkdir makedirs rmdir removedirs stat chmod symlink "
        "path.exists path.isfile path.isdir path.getmtime path.getsize",
    ),
    **_rules("io", ACTIVITY, "", "io.open io.open_code codecs.open"),
    **_rules(
        "process", ACTIVITY, "os.", "system popen fork forkpty kill killpg posix_spawn posix_spawnp startfile"
    ),
    **_rules("thread", ACTIVITY, "threading.", "Thread Timer"),
    **_rules("thread", ACTIVITY, "_thread.", "start_new_thread"),
    **_rules("asyncio", ACTIVITY, "asyncio.", "to_thread open_connection open_unix_connection start_server"),
    **_rules(
        "asyncio", ACTIVITY, "asyncio.", "start_unix_server create_subprocess_exec create_subprocess_shell"
    ),
    **_rules("asyncio", "await", "asyncio.", "run Runner new_event_loop"),
    "asyncio.run_coroutine_threadsafe": Rule("asyncio", "a signal"),
    **_rules("asyncio", ACTIVITY, "anyio.", "run_process open_process open_file connect_tcp"),
}
"""Names that are reported even if they are not called: a function that is passed on is called elsewhere."""

CALLS: Final[dict[str, Rule]] = {
    "secrets.": Rule("random", _RANDOM),
    "numpy.random.": Rule("random", _RANDOM),
    **_rules("process", ACTIVITY, "", "subprocess. multiprocessing. os.exec os.spawn pty."),
    **_rules("thread", ACTIVITY, "", "concurrent.futures. anyio.to_thread. anyio.to_process."),
    **_rules(
        "io",
        ACTIVITY,
        "",
        "socket. ssl. requests. httpx. aiohttp. urllib.request. urllib3. http.client. smtplib. imaplib. poplib. "
        "ftplib. xmlrpc.client. sqlite3. psycopg. psycopg2. asyncpg. aiosqlite. pymongo. redis. boto3. botocore. "
        "kafka. pika. paramiko. shutil. tempfile. glob. fileinput. mmap. aiofiles.",
    ),
}
"""Modules whose functions may not be called; their classes may be named, in an ``except`` for example."""

METHODS: Final[dict[str, Rule]] = {"run_in_executor": Rule("asyncio", ACTIVITY)}
"""Methods that are recognised by name, whatever object they are called on."""

_READS_AND_WRITES: Final = (
    "open read_text read_bytes write_text write_bytes exists is_file is_dir stat unlink mkdir rmdir rename replace "
    "touch iterdir glob rglob symlink_to chmod"
)
PATH_METHODS: Final = frozenset(_READS_AND_WRITES.split(" "))
"""Methods of a ``pathlib.Path`` that access the disk."""

_CHANGES: Final = (
    "append extend insert remove pop clear add discard update setdefault popitem appendleft popleft sort reverse"
    " __setitem__"
)
MUTATORS: Final = frozenset(_CHANGES.split(" "))
"""Methods that change a container."""

AWAITED: Final = frozenset(
    f"outlast.workflow.{name}"
    for name in [
        "sleep",
        "wait_condition",
        "receive",
        "execute_activity",
        "execute_local_activity",
        "execute_child",
        "shield",
    ]
) | {"asyncio.sleep"}


def rule_of(name: str, *, called: bool) -> Rule | None:
    """Return the rule of a resolved name, or ``None``.

    Args:
        name: The name in full.
        called: Whether it is called, and not only named.
    """
    rule = NAMES.get(name)
    if rule is not None or not called:
        return rule
    for prefix, rule in CALLS.items():
        if name.startswith(prefix):
            return rule
    return None
