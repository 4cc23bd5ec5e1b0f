"""Importing a workflow: one change writes all its runs, and checks again that its id is free."""

from __future__ import annotations

from collections.abc import Sequence

from outlast_store.journal.batch import BaseChange, Batch
from outlast_store.reads.export_format import SECTIONS, PortableRun, run_values
from outlast_store.schema import search_index, tables
from outlast_store.schema.rows import InstanceRow, RunRow
from outlast_workflow.errors.history import HistoryExistsError


class ImportWorkflow(BaseChange):
    """Insert all runs of a workflow id that the database does not have."""

    def __init__(self, runs: Sequence[PortableRun]) -> None:
        self.imported = runs
        self.rows = [RunRow(*run_values(run)) for run in runs]
        newest = max(self.rows, key=lambda row: (row.created_at, row.run_id))
        self.instance = InstanceRow(
            workflow_id=newest.workflow_id,
            workflow_type=newest.workflow_type,
            current_run_id=newest.run_id,
            run_count=newest.run_number,
            created_at=min(row.created_at for row in self.rows),
        )
        self.new_instances = [self.instance]
        self.weight = sum(row.history_bytes for row in self.rows)

    def apply(self, batch: Batch) -> None:
        """Insert everything.

        Raises:
            HistoryExistsError: The database has the workflow or one of the runs.
        """
        instance = self.instance
        if batch.instance(instance.workflow_id) is not None:
            raise HistoryExistsError([instance.workflow_id])
        keys = [(row.run_id,) for row in self.rows]
        there = batch.read(tables.workflow_runs, ("run_id",), keys)
        if there:
            raise HistoryExistsError(sorted(str(values[0]) for values in there))
        batch.confirm_instance(instance)
        made = batch.instance(instance.workflow_id)
        assert made is not None
        made.run_count, made.created_at = instance.run_count, instance.created_at
        batch.insert(tables.workflow_runs, [tuple(vars(row).values()) for row in self.rows])
        for row in self.rows:
            if row.search_attributes is not None:
                search_index.index(batch.execute, row)
        for name, (table, _) in SECTIONS.items():
            rows = [row for run in self.imported for row in run.rows[name]]
            if rows:
                batch.insert(table, rows)
