"""Flask and Django code of the page about web frameworks runs: with test clients in virtual time, and as servers."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "web-frameworks.md").read_text()
FILES = dict(re.findall(r'^```py title="(.+?)"\n(.*?)^```', PAGE, re.M | re.S))
WORKFLOWS = (
    "from outlast import activity, workflow\n\n\n"
    + re.findall(r"^@activity\.defn.*?(?=^app = FastAPI)", PAGE, re.M | re.S)[0]
)
ELSEWHERE = "postgresql://app@db/shop"

SETTINGS = """
import os

ALLOWED_HOSTS = ["*"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["shop"]
OUTLAST_URL = os.environ.get("OUTLAST_URL", "")
ROOT_URLCONF = "shop.urls"
SECRET_KEY = "only a test's"
USE_TZ = True
"""
MODELS = """
from django.db import models


class Purchase(models.Model):
    item = models.TextField()
"""
URLS = """
from django.urls import path

from shop import views

urlpatterns = [path("orders", views.place), path("orders/<int:pk>", views.look)]
"""
TEST_OF_DJANGO = """
import os

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
django.setup()

from django.core.management import call_command
from django.test import Client
from outlast.testing import BlockingTestEnvironment

from shop import views
from shop.workflows import Order, charge


def test_an_order_takes_three_days(monkeypatch):
    call_command("migrate", run_syncdb=True, verbosity=0)
    with BlockingTestEnvironment(workflows=[Order], activities=[charge]) as env:
        monkeypatch.setattr(views, "outlast", lambda: env.client)
        browser = Client()
        placed = browser.post("/orders", {"item": "a lamp"})
        assert placed.status_code == 202
        where = f"/orders/{placed.json()['id']}"
        env.sleep(days=2)
        assert browser.get(where).json() == {"status": "running", "receipt": None}
        env.sleep(days=2)
        assert browser.get(where).json() == {"status": "completed", "receipt": f"receipt-{placed.json()['id']}"}
        assert browser.get("/orders/8000").status_code == 404
        assert browser.get("/orders").status_code == 405
"""


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@pytest.fixture
def flask(tmp_path: Path) -> Path:
    """A folder with the files of the Flask application."""
    write(tmp_path, orders=WORKFLOWS, shop=FILES["shop.py"], test_shop=FILES["test_shop.py"])
    return tmp_path


@pytest.fixture
def django(tmp_path: Path) -> Path:
    """A folder with a Django project around the files of the page."""
    write(
        tmp_path,
        shop__engine=FILES["shop/engine.py"],
        shop__views=FILES["shop/views.py"],
        shop__worker=FILES["shop/worker.py"],
        shop__settings=SETTINGS,
        shop__models=MODELS,
        shop__urls=URLS,
        shop__workflows=WORKFLOWS,
        test_shop=TEST_OF_DJANGO,
    )
    return tmp_path


def run(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_of_the_page_is_run() -> None:
    assert set(FILES) == {"shop.py", "test_shop.py", "shop/engine.py", "shop/views.py", "shop/worker.py"}


@pytest.mark.parametrize("framework", ["flask", "django"])
def test_in_virtual_time_a_request_starts_an_order_and_another_reads_how_it_is(
    framework: str, request: pytest.FixtureRequest
) -> None:
    run(request.getfixturevalue(framework), "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py")


@contextmanager
def process(folder: Path, *arguments: str, until: str, **more: str) -> Generator[subprocess.Popen[str]]:
    """A process that has said that it is ready; at the end it is interrupted, and leaves no traceback."""
    made = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        cwd=folder,
        env={**os.environ, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = ""
    try:
        assert made.stdout is not None
        while until not in said:
            line = made.stdout.readline()
            assert line, said
            said += line
        yield made
        made.send_signal(signal.SIGINT)
        said += made.communicate(timeout=60)[0]
        assert "Traceback" not in said, said
    finally:
        made.kill()
        made.communicate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def ask(method: str, url: str, body: bytes | None = None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=60) as answer:
            return answer.status, orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, None


def until_it_runs(url: str) -> Any:
    while (found := ask("GET", url)[1])["status"] == "pending":
        pass
    return found


def test_a_flask_server_and_a_worker_share_a_database(flask: Path) -> None:
    url, port = f"sqlite:///{flask}/outlast.db", free_port()
    assert ELSEWHERE in FILES["shop.py"]
    (flask / "shop.py").write_text(FILES["shop.py"].replace(ELSEWHERE, url))
    worker = ("-m", "outlast", "worker", "orders", "--url", url)
    server = ("-m", "flask", "--app", "shop", "run", "--port", str(port))
    with (
        process(flask, *worker, until="serves task queue"),
        process(flask, *server, until="Running on"),
    ):
        order = f"http://127.0.0.1:{port}/orders/7"
        assert ask("PUT", order) == (202, {"id": "7"})
        assert ask("PUT", order)[0] == 202
        assert until_it_runs(order) == {"status": "running"}
        assert ask("GET", f"{order}0")[0] == 404


def test_a_django_server_and_a_worker_share_a_database(django: Path) -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "shop.settings", "OUTLAST_URL": f"sqlite:///{django}/outlast.db"}
    port = free_port()
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--run-syncdb", "--verbosity", "0"],
        cwd=django,
        env={**os.environ, **settings},
        check=True,
    )
    worker = ("-m", "outlast", "worker", "shop.worker:ALL")
    server = ("-m", "django", "runserver", "--noreload", f"127.0.0.1:{port}")
    with (
        process(django, *worker, until="serves task queue", OUTLAST_URL=settings["OUTLAST_URL"]),
        process(django, *server, until="Quit the server", **settings),
    ):
        orders = f"http://127.0.0.1:{port}/orders"
        assert ask("POST", orders, b"item=lamp") == (202, {"id": 1})
        assert until_it_runs(f"{orders}/1") == {"status": "running", "receipt": None}
        assert ask("GET", f"{orders}/8000")[0] == 404
