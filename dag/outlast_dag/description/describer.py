"""What packages below this one ask about runs of DAGs: found by the entry point ``outlast.describers``."""

from __future__ import annotations

from typing import Final

from outlast.runtime.runtime import Runtime
from outlast.visibility.dags import DagDescription, Describer
from outlast.visibility.views import WorkflowDescription
from outlast_dag.description.describing import describe_run
from outlast_dag.picture.svg import svg_of_run
from outlast_workflow.data.converter import DataConverter


class DagDescriber:
    """Describes and draws runs of DAGs."""

    async def describe(
        self, runtime: Runtime, converter: DataConverter, found: WorkflowDescription
    ) -> DagDescription | None:
        """Describe a run as a DAG.

        Args:
            runtime: The database.
            converter: Decodes what the run has recorded.
            found: The run.

        Raises:
            OutlastError: The run's payloads or its history cannot be read.
        """
        return await describe_run(runtime, converter, found)

    def svg(self, found: DagDescription) -> str:
        """Return a picture of a run, without styles.

        Args:
            found: The run.
        """
        return svg_of_run(found)


describer: Final[Describer] = DagDescriber()
