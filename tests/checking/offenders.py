"""Workflow code that may not replay: each line that ends with a rule's name in a comment should be found, no other."""
# ruff: noqa: ASYNC210, ASYNC221, ASYNC230, ASYNC251, SIM115, E722
# mypy: ignore-errors
# pyright: reportUnusedCoroutine=false, reportUnusedVariable=false, reportAttributeAccessIssue=false, reportDeprecated=false

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime as dates
import multiprocessing
import os
import os as system
import random
import secrets
import subprocess
import threading
import time
import urllib.parse
import urllib.request
import uuid
from datetime import datetime
from pathlib import Path
from random import Random, choice
from time import sleep as nap
from time import time as read_clock
from typing import Any
from uuid import uuid4

from outlast import activity, workflow
from outlast.workflow import blocking
from outlast_workflow.declare.handlers import query, update

TOTALS: dict[str, int] = {}
SEEN: list[str] = []
LIMIT = 5
counter = 0


# --- activities may do all of this ----------------------------------------------------------------------------------


@activity.defn(start_to_close_timeout=10)
async def charge(order: str) -> str:
    SEEN.append(order)
    return f"{time.time()} {random.random()} {os.environ['X']} {open('/tmp/x')}"


@activity.defn(start_to_close_timeout=10)
def refund(order: str) -> str:
    time.sleep(1)
    return helper_of_an_activity()


def helper_of_an_activity() -> str:
    return str(uuid.uuid4())


def in_a_thread() -> float:
    return time.time()  # clock


def never_reached() -> float:
    return time.time()


# --- what workflow code reaches -------------------------------------------------------------------------------------


def stamp() -> str:
    return f"{datetime.now()} {further()}"  # clock


def further() -> float:
    return read_clock()  # clock


def read_setting() -> str:
    return os.environ["SETTING"]


class Helper:
    created: Any

    def __init__(self) -> None:
        self.created = dates.datetime.utcnow()  # clock

    @staticmethod
    def make() -> str:
        return secrets.token_hex()  # random


class Base:
    def inherited(self) -> float:
        return time.monotonic()  # clock


@workflow.defn
class Order(Base):
    shared = 0

    def __init__(self) -> None:
        self.id = uuid.uuid4()  # random

    @workflow.run
    async def run(self, order: str, random: int = 3) -> Any:
        global counter  # global-state
        counter += 1
        stamps = [stamp(), dates.date.today(), self.inherited()]  # clock
        stamps.append(random)  # the argument, not the module
        number = choice([1, 2])  # random
        fixed = Random(5).random()
        loose = Random()  # random
        name = urllib.parse.quote(order)
        page = urllib.request.urlopen("http://localhost")  # io
        with open("/tmp/x") as file, Path("/tmp/y").open():  # io io
            text = file.read()
        subprocess.run(["true"], check=True)  # process
        system.system("true")  # process
        threading.Thread(target=in_a_thread).start()  # thread
        asyncio.get_running_loop().run_in_executor(None, len, "")  # asyncio
        await asyncio.to_thread(len, "")  # asyncio
        time.sleep(1)  # sleep
        nap(1)  # sleep
        setting = os.environ["HOME"] or os.getenv("USER")  # environment environment
        once = workflow.side_effect(read_setting) or workflow.side_effect(lambda: time.time())
        with workflow.unsafe.allow_io():
            allowed = open("/tmp/z")
        allowed_too = time.time()  # outlast: allow
        allowed_three = time.time()  # outlast: allow[clock, io]
        other_rule = time.time()  # outlast: allow[io]  # clock
        local = {"a": 1}
        local["b"] = 2
        TOTALS["b"] = 2  # global-state
        TOTALS.update(local)  # global-state
        SEEN.append(order)  # global-state
        Order.shared += 1  # global-state
        Helper()
        Helper.make()
        self.values = LIMIT
        pool = concurrent.futures.ThreadPoolExecutor()  # thread
        processes = multiprocessing.Pool()  # process
        try:
            await self.later()
        except TimeoutError:
            pass
        return locals()

    async def later(self) -> None:
        def nested() -> float:
            return time.perf_counter()  # clock

        key = uuid4  # random
        await charge(str(nested()) + str(key()))

    async def unused(self) -> float:
        return time.time()

    @workflow.signal
    async def approve(self) -> None:
        self.at = datetime.now()  # clock

    @query
    def status(self) -> str:
        return str(Path.cwd()) + str(datetime.today())  # clock

    @update
    def change(self, value: int) -> None: ...

    @change.validator
    def check_change(self, value: int) -> None:
        if random.random() < value:  # random
            raise ValueError


@workflow.defn
async def ordering(names: list[str]) -> None:
    unique = set(names)
    for name in unique:  # set-order
        await charge(name)
    for name in {"a", "b"}:  # set-order
        await charge(name)
    for name in sorted(unique):
        await charge(name)
    length = 0
    for name in unique:
        length += len(name)
    await asyncio.gather(*[charge(name) for name in set(names)])  # set-order
    await asyncio.gather(*[charge(name) for name in names])
    again = {length}
    again = names
    for name in again:
        await charge(str(name))


@workflow.defn
async def swallowing() -> str:
    try:
        await charge("a")
    except:  # swallows
        pass
    try:
        await charge("a")
    except (ValueError, BaseException):  # swallows
        return "done"
    try:
        await charge("a")
    except BaseException:
        await charge("b")
        raise
    try:
        await charge("a")
    except asyncio.CancelledError:
        return "cancelled"
    try:
        len("nothing is awaited here")
    except BaseException:
        pass
    try:
        await charge("a")
    except Exception:
        pass
    return "done"


@workflow.defn
async def not_waiting() -> None:
    workflow.sleep(5)  # not-awaited
    asyncio.sleep(5)  # not-awaited
    charge("a")  # not-awaited
    charge.with_options(priority=1)("a")  # not-awaited
    workflow.start_activity(charge, "a")
    await workflow.sleep(5)


@workflow.defn
def plain() -> None:
    time.sleep(5)  # sleep
    workflow.sleep(5)  # not-awaited
    charge("a")  # not-awaited
    charge.call("a")
    blocking.sleep(5)
    both = asyncio.gather(charge("a"), refund("b"))
    blocking.await_(both)
    try:
        charge.call("b")
    except BaseException:  # swallows
        pass
    for name in {"a", "b"}:  # set-order
        blocking.execute_activity("x", name)
    helper_of_plain()


def helper_of_plain() -> None:
    print(time.localtime())  # clock


WORKFLOWS: list[Any] = [Order, ordering, swallowing, not_waiting, plain]
