"""What every report of a measurement has: the machine it was made on, and the folder that its JSON goes to."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"


def machine() -> dict[str, str]:
    """Return what the figures depend on."""
    packages = ("sqlalchemy", "psycopg", "orjson", "pydantic")
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: version(name) for name in ("outlast", *packages)},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
