"""The runtime guard: workflow code that attempts I/O fails its task, with the line and what to use instead.

Python calls an audit hook (PEP 578) for every file that is opened, socket that is created and process that is started
(for threads since 3.12). The hook checks whether the running loop is that of a run, which holds during workflow tasks
only; elsewhere the hook costs one table look-up. A hook cannot be removed: it stays for the life of the process. Before
Python 3.13 there is no event for ``time.sleep``, so that function is replaced, for as long as a guard is installed, by
one that checks first.

The guard ignores what the interpreter and its tools do on the code's behalf: imports open files, and so do logging
handlers, tracebacks that show source lines (those that Python shows by itself, too, of what ``__del__`` has raised),
time zones and debuggers. It also ignores what is computed once for
``workflow.side_effect``, and payload codecs.

The guard sees audit events where workflow code runs. It does not see clocks or randomness, which the static check looks
for, nor what a C library does by itself.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from asyncio import events
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any, Final

from outlast_workflow.errors.task import RestrictedWorkflowAccessError
from outlast_workflow.loop.source_lines import ENGINE_PACKAGES, Place, line_of
from outlast_workflow.run.machine import RunLoop, WorkflowMachine

_ACTIVITY: Final = "do it in an activity, or read it once with `workflow.side_effect(…)`"
_PROCESS: Final = "do it in an activity"
_THREAD: Final = "make it an activity: a plain `def` runs in a thread"
_SLEEP: Final = "use `await workflow.sleep(…)`, or `blocking.sleep(…)` in a synchronous workflow"


def _all(act: str, instead: str, events: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(events.split(), (act, instead))


GUARDED: Final[dict[str, tuple[str, str]]] = {
    **_all("opened a file", _ACTIVITY, "open mmap.__new__ tempfile.mkstemp tempfile.mkdtemp"),
    **_all(
        "looked at or changed the file system",
        _ACTIVITY,
        "os.listdir os.scandir os.walk os.fwalk os.remove os.rename os.mkdir os.rmdir os.link os.symlink os.truncate "
        "os.chmod os.chown os.utime os.chdir os.mkfifo os.mknod glob.glob shutil.copyfile shutil.copytree shutil.move "
        "shutil.rmtree shutil.make_archive shutil.unpack_archive",
    ),
    **_all(
        "used the network",
        _ACTIVITY,
        "socket.__new__ socket.connect socket.bind socket.sendto socket.sendmsg socket.getaddrinfo "
        "socket.gethostbyname socket.gethostbyaddr socket.getnameinfo urllib.Request",
    ),
    **_all("opened a database", _ACTIVITY, "sqlite3.connect"),
    **_all(
        "started or signalled a process",
        _PROCESS,
        "subprocess.Popen os.system os.exec os.fork os.forkpty os.posix_spawn os.spawn os.startfile os.kill os.killpg "
        "pty.spawn webbrowser.open",
    ),
    **_all("changed the environment", _PROCESS, "os.putenv os.unsetenv"),
    **_all("started a thread", _THREAD, "_thread.start_new_thread _thread.start_joinable_thread"),
    "time.sleep": ("blocked its worker with time.sleep", _SLEEP),
}
"""What the guard stops: for each audit event, what the code did and what it should do instead."""

_UNRAISABLE: Final = "sys.unraisablehook"
_UNCAUGHT: Final = "sys.excepthook"
"""The events that precede the display of an exception, whose source Python may read in C, without a frame of it."""
_WATCHED: Final = {**GUARDED, **dict.fromkeys((_UNRAISABLE, _UNCAUGHT), ("", ""))}

_TRUSTED: Final = frozenset(
    {
        "_frozen_importlib",
        "_frozen_importlib_external",
        "_pydevd_bundle",
        "bdb",
        "coverage",
        "debugpy",
        "importlib",
        "linecache",
        "logging",
        "pdb",
        "pydevd",
        "traceback",
        "warnings",
        "zoneinfo",
    }
)
_OURS: Final = frozenset({"outlast_workflow.data.converter", "outlast_workflow.api.markers"})
_NOT_THE_USERS: Final = sys.stdlib_module_names | ENGINE_PACKAGES
_MOST_FILES: Final = 100
_LOOP: Final = "outlast_workflow.loop.loop"
_SLEEP_IS_SEEN: Final = sys.version_info >= (3, 13)

_io_allowed: ContextVar[bool] = ContextVar("outlast_io_allowed", default=False)


@contextmanager
def allow_io() -> Generator[None]:
    """Allow the code within to do I/O that the runtime guard would stop, in this task of the workflow.

    The I/O is repeated on each replay and its outcome is not recorded, so no decision may depend on it.
    """
    token = _io_allowed.set(True)
    try:
        yield
    finally:
        _io_allowed.reset(token)


# --- the hook ---------------------------------------------------------------------------------------------------------


def _hook(
    event: str,
    args: Any,
    watched: Any = _WATCHED.get,
    running: Any = events._get_running_loop,
    run_loop: type[RunLoop] = RunLoop,
) -> None:
    # Its names are default arguments: fast to look up, and still there while the interpreter tears modules down.
    if watched(event) is not None and isinstance(running(), run_loop):
        if event == _UNRAISABLE:
            _note_display(args[1].exc_value, args[1].exc_traceback, sys._getframe(1))
        elif event == _UNCAUGHT:
            _note_display(args[2], args[3], sys._getframe(1))
        else:
            stop(event, args)


def stop(event: str, args: tuple[Any, ...] = ()) -> None:
    """Refuse what workflow code does, unless it is allowed."""
    machine: WorkflowMachine | None = getattr(events._get_running_loop(), "machine", None)
    if machine is None or not machine.guarded or _io_allowed.get():
        return
    trusted, place = _on_the_stack(sys._getframe(1))
    if trusted or _is_time_zone(args) or _is_displayed(args, sys._getframe(1).f_back):
        return
    act, instead = GUARDED[event]
    where = line_of(place)
    error = RestrictedWorkflowAccessError(
        f"workflow code {act}{f' at {where}' if where else ''}, and would do so again on each replay: {instead}; "
        "if it must be, do it inside `with workflow.unsafe.allow_io():`",
        event=event,
    )
    if machine.log.read_only is None:
        machine.log.refuse(error)
    raise error


def _on_the_stack(frame: FrameType | None) -> tuple[bool, Place]:
    """Return whether a trusted module is on the stack up to the loop, and the innermost line of user code."""
    place: Place = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        if package in _TRUSTED or module in _OURS:
            return True, place
        if module == _LOOP and frame.f_code.co_name == "run_ready":
            break
        if place is None and package not in _NOT_THE_USERS:
            place = frame.f_code, frame.f_lasti
        frame = frame.f_back
    return False, place


def _is_time_zone(args: tuple[Any, ...]) -> bool:
    """Return whether a time zone's file is opened, which C code does without a frame on the stack."""
    zoneinfo = sys.modules.get("zoneinfo")
    return zoneinfo is not None and args != () and str(args[0]).startswith(tuple(zoneinfo.TZPATH))


# --- the display of exceptions that nobody can catch -----------------------------------------------------------------

_display = threading.local()
"""What is being displayed in a thread: where its code is meanwhile, and the names of the source files."""


def _note_display(error: BaseException | None, traceback: TracebackType | None, frame: FrameType) -> None:
    """Note which files are read to display an exception, as one that ``__del__`` raised."""
    names: set[str] = set()
    while len(names) < _MOST_FILES:
        while traceback is not None:
            names.add(os.path.basename(traceback.tb_frame.f_code.co_filename))
            traceback = traceback.tb_next
        error = None if error is None else error.__cause__ or error.__context__
        if error is None:
            break
        traceback = error.__traceback__
    _display.now = id(frame), frame.f_lasti, names


def _is_displayed(args: tuple[Any, ...], frame: FrameType | None) -> bool:
    """Return whether a source file is opened by the display: then the code has not moved on since it began."""
    now = getattr(_display, "now", None)
    if now is None or frame is None or not args:
        return False
    frame_id, lasti, names = now
    return (id(frame), frame.f_lasti) == (frame_id, lasti) and os.path.basename(str(args[0])) in names


# --- installing it ----------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_installed = 0
_hooked = False
_sleep = time.sleep


@functools.wraps(time.sleep)
def _checked_sleep(seconds: float, /) -> None:
    if isinstance(events._get_running_loop(), RunLoop):
        stop("time.sleep")
    _sleep(seconds)


def install() -> None:
    """Guard the runs of this process whose machines ask for it. Call :func:`release` once for each call."""
    global _installed, _hooked
    with _lock:
        _installed += 1
        if not _hooked:
            sys.addaudithook(_hook)
            _hooked = True
        # A replacement that other code has installed stays.
        if not _SLEEP_IS_SEEN and time.sleep is _sleep:
            time.sleep = _checked_sleep  # type: ignore[assignment]  # typeshed is more exact than the documentation


def release() -> None:
    """Undo one :func:`install`; the last one restores ``time.sleep``."""
    global _installed
    with _lock:
        _installed -= 1
        if _installed == 0 and time.sleep is _checked_sleep:
            time.sleep = _sleep
