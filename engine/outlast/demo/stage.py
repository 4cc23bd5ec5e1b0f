"""The setup of the demonstration: its folder, its files and its times, also kept as JSON in the folder."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from outlast.demo.importing import ImportJob
from outlast.demo.orders import OrdersFile, write_orders
from outlast.demo.warehouse import Warehouse
from outlast_workflow.environment import Environment

_FILE = "demo.json"


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of the command line."""

    rows: int = 50_000
    chunk_rows: int | None = None
    url: str | None = None
    keep: bool = False
    kill: bool = True
    json: bool = False
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast it runs, in seconds. The work alone would take a second, which is too short to watch."""

    chunks: int
    slices: int
    loading: float
    pause: float
    lease: float


CALM = Pace(chunks=10, slices=10, loading=9.0, pause=1.5, lease=3.0)
QUICK = Pace(chunks=6, slices=6, loading=3.0, pause=0.3, lease=1.0)

RUNS = 3
USUAL_ROWS = 50_000
EXECUTION_TIMEOUT = 120
RUN_TIMEOUT = 60
ROWS_PER_EXTRA_SECOND = 1_000
"""Files that are larger than the usual one get an extra second for this many rows."""


@dataclass(frozen=True, slots=True)
class Kill:
    """How the first worker ended.

    Attributes:
        pid: Its process.
        at: When, in seconds since the epoch.
        chunk: The chunk that it was loading.
        reached_row: The last row that it had written by then.
        heartbeat_row: The row in the last heartbeat that was observed before; ``None`` if none was.
    """

    pid: int
    at: float
    chunk: int
    reached_row: int
    heartbeat_row: int | None


@dataclass(slots=True)
class Stage:
    """The setup of one demonstration, and how its first worker ended."""

    folder: str
    url: str
    warehouse: str
    workflow_id: str
    task_queue: str
    lease: float
    orders: OrdersFile
    job: ImportJob
    chunks: int
    execution_timeout: int
    run_timeout: int
    run_id: str = ""
    killed: Kill | None = None

    @property
    def runs(self) -> int:
        """The number of runs that the chain will have."""
        return -(-self.chunks // self.job.chunks_per_run)

    def save(self) -> None:
        """Write it into the folder."""
        (Path(self.folder) / _FILE).write_bytes(_ADAPTER.dump_json(self, indent=2))

    @classmethod
    def load(cls, folder: Path) -> Stage:
        """Read what :meth:`save` wrote."""
        return _ADAPTER.validate_json((folder / _FILE).read_bytes())

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)


_ADAPTER = TypeAdapter(Stage)


def set_stage(wishes: Wishes) -> Stage:
    """Create the folder, the CSV file and an empty warehouse."""
    pace = QUICK if wishes.quick else CALM
    chunk_rows = wishes.chunk_rows or -(-wishes.rows // pace.chunks)
    chunks = -(-wishes.rows // chunk_rows)
    folder = Path(tempfile.mkdtemp(prefix="outlast-demo-"))
    try:
        warehouse = str(folder / "warehouse.db")
        Warehouse(warehouse, create=True).close()
        orders = write_orders(folder / "orders.csv", wishes.rows)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    job = ImportJob(
        path=orders.path,
        warehouse=warehouse,
        chunk_rows=chunk_rows,
        chunks_per_run=-(-chunks // RUNS),
        slice_rows=-(-chunk_rows // pace.slices),
        latency=pace.loading / (chunks * pace.slices),
        pause=pace.pause,
    )
    more = max(0, wishes.rows - USUAL_ROWS) // ROWS_PER_EXTRA_SECOND
    # In a database that was given, it must not collide with an earlier demonstration.
    name = "orders" if wishes.url is None else Environment().ids.next()
    return Stage(
        folder=str(folder),
        url=wishes.url or f"sqlite:///{folder / 'outlast.db'}",
        warehouse=warehouse,
        workflow_id=f"import-{name}",
        task_queue=f"demo-{name}",
        lease=pace.lease,
        orders=orders,
        job=job,
        chunks=chunks,
        execution_timeout=EXECUTION_TIMEOUT + more,
        run_timeout=RUN_TIMEOUT + more,
    )


def worker_log(stage: Stage, number: int) -> Path:
    """Return the log file of a worker process."""
    return Path(stage.folder) / f"worker-{number}.log"
