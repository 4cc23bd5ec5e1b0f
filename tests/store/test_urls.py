from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from outlast_store.database.urls import DatabaseUrl
from outlast_workflow.errors import InvalidUrlError


def test_three_slashes_name_a_file_under_the_working_directory(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    url = DatabaseUrl.parse("sqlite:///data/orders.db")
    monkeypatch.chdir("/")
    assert (url.backend, url.memory) == ("sqlite", False)
    assert url.path == tmp_path / "data" / "orders.db"
    assert str(url) == "sqlite:///data/orders.db"


def test_four_slashes_name_a_file_by_its_absolute_path() -> None:
    url = DatabaseUrl.parse("sqlite:////var/lib/my orders%.db")
    assert url.path == Path("/var/lib/my orders%.db")
    assert url.sqlalchemy_url.database == "/var/lib/my orders%.db"


@pytest.mark.parametrize("text", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_no_file_is_a_database_in_memory(text: str) -> None:
    url = DatabaseUrl.parse(text)
    assert url.memory
    assert url.path is None
    assert url.identity == DatabaseUrl.parse("sqlite://").identity


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_postgresql_goes_by_psycopg(scheme: str) -> None:
    url = DatabaseUrl.parse(f"{scheme}://ann:s%40cret@db.example:6543/orders?sslmode=require")
    assert (url.backend, url.memory, url.path) == ("postgresql", False, None)
    made = url.sqlalchemy_url
    assert made.drivername == "postgresql+psycopg"
    assert (made.username, made.password, made.host, made.port) == ("ann", "s@cret", "db.example", 6543)
    assert (made.database, dict(made.query)) == ("orders", {"sslmode": "require"})


@pytest.mark.parametrize(
    ("text", "hosts", "ports"),
    [
        ("postgresql://a:1,b:2/x?target_session_attrs=read-write", "a,b", "1,2"),
        ("postgresql://a,b:2/x", "a,b", ",2"),
        ("postgresql:///x?host=a,b&port=7", "a,b", "7,7"),
        ("postgresql:///x?host=/run/postgresql", "/run/postgresql", None),
        ("postgresql://%2Frun%2Fpostgresql/x", "/run/postgresql", None),
        ("postgresql://[::1]:77/x", "::1", 77),
    ],
)
def test_hosts_reach_libpq_as_they_were_meant(text: str, hosts: str, ports: str | int | None) -> None:
    engine = create_engine(DatabaseUrl.parse(text).sqlalchemy_url)
    _, arguments = engine.dialect.create_connect_args(engine.url)
    assert (arguments["host"], arguments.get("port")) == (hosts, ports)
    assert arguments["dbname"] == "x"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders.db",
        "/var/lib/orders.db",
        "sqlite:orders.db",
        "sqlite://orders.db",
        "sqlite:///orders.db?mode=ro",
        "sqlite:///file:orders.db",
        "sqlite:///data/",
        "sqlite+pysqlite:///orders.db",
        "postgresql+psycopg://host/orders",
        "postgresql://host:port/orders",
        "postgresql://host/orders?no_such_option=1",
        "mysql://host/orders",
        None,
    ],
)
def test_anything_else_is_refused_with_the_forms_that_are_not(text) -> None:
    with pytest.raises(InvalidUrlError) as refusal:
        DatabaseUrl.parse(text)
    for form in ("sqlite:///", "sqlite:////", "sqlite://\n", "sqlite://  ", "postgresql://"):
        assert form.strip() in str(refusal.value)


def test_a_driver_in_the_scheme_is_named_as_the_problem() -> None:
    with pytest.raises(InvalidUrlError, match="leave the driver out: postgresql://"):
        DatabaseUrl.parse("postgresql+asyncpg://host/orders")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:hunter2@host/orders",
        "postgresql://a:1,b:2/orders?user=ann&password=hunter2",
        "postgresql://ann@host/orders?sslpassword=hunter2",
    ],
)
def test_no_password_is_ever_shown(text: str) -> None:
    url = DatabaseUrl.parse(text)
    assert "hunter2" in url.sqlalchemy_url.render_as_string(hide_password=False)
    for shown in (str(url), repr(url), url.display, url.identity):
        assert "hunter2" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:hunter2 @host/x",
        "postgresql://ann:hunter%zz2@host/x",
        "postgresql://ann:hunter2@host:x/y",
    ],
)
def test_a_url_that_cannot_be_read_is_not_quoted_with_its_password(text: str) -> None:
    try:
        shown = DatabaseUrl.parse(text).display
    except InvalidUrlError as refusal:
        shown = str(refusal)
    assert "hunter" not in shown


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("postgresql://ann:old@HOST/orders", "postgres://ann:new@host:5432/orders"),
        ("postgresql://ann@host", "postgresql://ann@host/ann?application_name=shop"),
        ("sqlite:///a/../orders.db", "sqlite:///orders.db"),
    ],
)
def test_two_ways_to_name_one_database_have_one_identity(one: str, other: str) -> None:
    assert DatabaseUrl.parse(one).identity == DatabaseUrl.parse(other).identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("postgresql://ann@host/orders", "postgresql://bob@host/orders"),
        ("postgresql://ann@host/orders", "postgresql://ann@host/invoices"),
        ("postgresql://ann@host/orders", "postgresql://ann@host/orders?options=-csearch_path%3Dshop"),
        ("sqlite:///orders.db", "sqlite:///invoices.db"),
        ("sqlite:///orders.db", "sqlite://"),
    ],
)
def test_two_databases_have_two_identities(one: str, other: str) -> None:
    assert DatabaseUrl.parse(one).identity != DatabaseUrl.parse(other).identity


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "orders.db").touch()
    os.symlink(tmp_path / "orders.db", tmp_path / "link.db")
    link = DatabaseUrl.parse(f"sqlite:///{tmp_path}/link.db")
    assert link.identity == DatabaseUrl.parse(f"sqlite:///{tmp_path}/orders.db").identity
