"""``python -m tests.chaos``: a campaign by hand; prints its report as JSON; exit code 1 where something is lost."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from tests.chaos.bugs import BUGS
from tests.chaos.campaign import WEIGHTS, Plan, campaign


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=(__doc__ or "").partition(":")[2]
    )
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the schedule; the machine adds its own chance"
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="how long there are faults")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between one fault and the next")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=12, help="workflows at a time")
    parser.add_argument("--lease", type=float, default=1.0, help="the workers' lease, in seconds")
    parser.add_argument("--queued", action="store_true", help="all goes through queues (PostgreSQL)")
    parser.add_argument("--bug", choices=sorted(BUGS), default="", help="what is wrong with the workers")
    parser.add_argument("--only", nargs="*", choices=sorted(WEIGHTS), default=[], help="these faults alone")
    parser.add_argument("--without", nargs="*", choices=sorted(WEIGHTS), default=[], help="not these faults")
    parser.add_argument("--at-least", nargs="*", default=[], metavar="FAULT=N", help="so many in any case")
    parser.add_argument("--keep", type=Path, help="a folder for ledger, effects and log, to be kept")
    given = parser.parse_args()
    wanted = dict(pair.split("=") for pair in given.at_least)
    plan = Plan(
        database=given.database,
        seed=given.seed,
        seconds=given.seconds,
        pause_s=given.pause,
        workers=given.workers,
        in_flight=given.in_flight,
        lease_s=given.lease,
        queued=given.queued,
        bug=given.bug,
        only=tuple(given.only),
        without=tuple(given.without),
        at_least={name: int(count) for name, count in wanted.items()},
    )
    report = asyncio.run(campaign(plan, keep=given.keep))
    print(json.dumps(report.to_document(), indent=2))
    return 1 if report.verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
