"""CONTRIBUTING's map names real places."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
ROOMS = {
    "workflow/outlast_workflow": ROOT / "workflow/outlast_workflow",
    "store/outlast_store": ROOT / "store/outlast_store",
    "engine/outlast": ROOT / "engine/outlast",
    "dag/outlast_dag": ROOT / "dag/outlast_dag",
    "serverless/outlast_serverless": ROOT / "serverless/outlast_serverless",
}


def test_each_path_in_it_exists() -> None:
    tops = "activities|dag|dashboard|docs|engine|migrations|runs|serverless|store|tests|watchdog|workflow"
    paths = set(re.findall(rf"`((?:{tops})/[\w./]*\w/?)`", TEXT))
    assert len(paths) > 30
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_each_room_is_on_the_map_and_no_other() -> None:
    table = TEXT.partition("### Rooms")[2].partition("\n## ")[0]
    parts = re.split(r"^\| \*\*([\w/]+)\*\* \| \|$", table, flags=re.M)
    named = {
        package: set(re.findall(r"^\| `(\w+)/`", rows, re.M))
        for package, rows in zip(parts[1::2], parts[2::2], strict=True)
    }
    there = {
        package: {folder.parent.name for folder in path.glob("*/__init__.py")}
        for package, path in ROOMS.items()
    }
    assert named == there


def test_each_folder_of_tests_that_it_names_exists() -> None:
    assert [one for one in sorted(set(re.findall(r"`(tests/\w+)`", TEXT))) if not (ROOT / one).is_dir()] == []
