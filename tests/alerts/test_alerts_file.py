"""``alerts.toml``: read whole, and all that is wrong with it told at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outlast import AlertPolicy
from outlast.alerts import Alert, Webhook
from outlast.alerts.alerts_file import AlertsFile, read_alerts_file
from outlast.errors import InvalidOptionError
from outlast.watchdog import AlertRule


async def page(alerts: list[Alert]) -> None:
    pass


def read(folder: Path, text: str) -> AlertsFile:
    file = folder / "alerts.toml"
    file.write_text(text)
    return read_alerts_file(file, {"pager:page": page, "pager:five": 5}.__getitem__)


def test_a_file_has_channels_and_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCALL_SECRET", "whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTA=")
    found = read(
        tmp_path,
        """
        [channels.oncall]
        url = "https://alerts.example.com/outlast"
        secret_env = "ONCALL_SECRET"
        timeout = 5
        [channels.pager]
        function = "pager:page"
        [[rules]]
        workflow_type = "Order*"
        at = [0.8, 1]
        before = ["10m", 5]
        kinds = ["run"]
        channels = ["oncall", "pager"]
        [[rules]]
        task_queue = "slow"
        after = ["1h"]
        signal = "late"
        """,
    )
    assert isinstance(found.channels["oncall"], Webhook)
    assert found.channels["pager"] is page
    one = AlertPolicy(at=[0.8, 1], before=[600, 5], kinds=["run"], channels=["oncall", "pager"])
    assert found.rules == (
        AlertRule(workflow_type="Order*", policy=one),
        AlertRule(task_queue="slow", policy=AlertPolicy(after=[3600], signal="late")),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[channels", ["it is no TOML"]),
        ("", ["neither channels nor rules"]),
        (
            "[channels.a]\nurl = 5\n[channels.b]\nweb = 'x'\n[[rules]]\nat = 0.8\n[other]\n",
            [
                "other: there is no such table: there are channels, rules",
                "channels.a.url: Input should be a valid string",
                "channels.b.web: there is no such setting: there are url, function, secret_env",
                "rule 1 at: Input should be a valid list",
            ],
        ),
        (
            (
                "[channels.a]\n[channels.b]\nurl = 'https://a.example'\nfunction = 'x:y'\n"
                "[channels.c]\nfunction = 'x:y'\ntimeout = 5\n"
            ),
            [
                "channels.a: give either url or function",
                "channels.b:",
                "channels.c: a function",
            ],
        ),
        (
            (
                "[channels.a]\nfunctoin = 'pager:page'\n[channels.b]\nurl = 'http://b.example'\n"
                "[[rules]]\natt = [1]\nworkflow_type = 'x'\n[[rules]]\nworkflow_type = 'x'\nafter = ['2 parsecs']\n"
            ),
            [
                "channels.a.functoin: there is no such setting: did you mean function?",
                "channels.b: the webhook's url must begin with https",
                "rule 1 att: there is no such setting: did you mean at?",
                "rule 2: alerts after",
            ],
        ),
        (
            (
                "[channels.a]\nurl = 'http://a.example'\n[channels.b]\nurl = 'https://a.example'\n"
                "secret_env = 'UNSET'\n"
                "[channels.c]\nfunction = 'pager:five'\n[channels.'d e']\nurl = 'https://a.example'\n"
                "[[rules]]\nat = [0.8]\n[[rules]]\nworkflow_type = 'x'\nat = [80]\n[[rules]]\nworkflow_type = 'x'\n"
                "after = ['soon']\n"
            ),
            [
                "channels.a: the webhook's url must begin with https",
                "channels.b: the environment variable 'UNSET'",
                "channels.c: alert channel 'c' must be",
                "channels.d e: an alert channel is named by",
                "rule 1: a rule of alerts names workflow_type or task_queue",
                "rule 2: alerts at must be",
                "rule 3: alerts after",
            ],
        ),
    ],
)
def test_all_that_is_wrong_is_told_at_once(tmp_path: Path, text: str, says: list[str]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        read(tmp_path, text)
    lines = str(caught.value).splitlines()
    assert "alerts.toml cannot be used:" in lines[0]
    assert len(lines) == 1 + len(says), lines
    for line, said in zip(lines[1:], says, strict=True):
        assert said in line


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    def load(name: str) -> Any:
        raise AssertionError(name)

    with pytest.raises(InvalidOptionError, match="cannot be read: No such file"):
        read_alerts_file(tmp_path / "nowhere.toml", load)
