"""The wheel that users get: whole, and working in an environment that has nothing else."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    Path(path)
    for path in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]["packages"]
]
OPTIONAL = {"outlast_dashboard": ("web", "ui"), "outlast_serverless": ("serverless", "serverless")}
"""What needs an extra: the extra, and the command."""
VERSION = (ROOT / "engine/outlast/version.py").read_text().split('__version__ = "')[1].split('"')[0]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command away from the sources, with no setting of ours that could help it; its output."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OUTLAST"))
    }
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def empty_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it asks for; its folder of programs."""
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    programs = folder / "bin"
    run(sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", wheel, cwd=folder)
    return programs


def test_the_wheel_holds_what_the_sources_hold(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {
        str(file.relative_to(ROOT / package.parent))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert inside == sources
    assert {f"{package.name}/py.typed" for package in PACKAGES} <= inside


def test_the_wheel_brings_the_migrations(wheel: Path) -> None:
    inside = zipfile.ZipFile(wheel).namelist()
    assert "outlast_migrations/runner.py" in inside
    assert [
        name for name in inside if name.startswith("outlast_migrations/versions/0") and name.endswith(".py")
    ]


def test_the_wheel_has_the_licence(wheel: Path) -> None:
    assert [
        name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/licenses/LICENSE")
    ]


def test_every_package_imports_from_the_wheel_alone(empty_environment: Path, tmp_path: Path) -> None:
    names = [package.name for package in PACKAGES if package.name not in OPTIONAL]
    script = f"import {', '.join(names)}; print({', '.join(f'{name}.__file__' for name in names)})"
    for file in run(empty_environment / "python", "-c", script, cwd=tmp_path).split():
        assert Path(file).is_relative_to(empty_environment.parent)


def test_the_command_runs_from_the_wheel_alone(empty_environment: Path, tmp_path: Path) -> None:
    assert run(empty_environment / "outlast", "--version", cwd=tmp_path).split()[-1] == VERSION


@pytest.mark.parametrize("package", OPTIONAL)
def test_what_needs_an_extra_says_which(package: str, empty_environment: Path, tmp_path: Path) -> None:
    extra, command = OPTIONAL[package]
    script = f"""
try:
    import {package}
except ModuleNotFoundError as error:
    print(error)
"""
    assert f"pip install '.[{extra}]'" in run(empty_environment / "python", "-c", script, cwd=tmp_path)
    said = subprocess.run(
        [empty_environment / "outlast", command], cwd=tmp_path, capture_output=True, text=True
    )
    assert (said.returncode, f".[{extra}]" in said.stderr) == (1, True)
