"""How does a run of a DAG stand?

:mod:`~outlast_dag.description.fold` follows a run's history, :mod:`~outlast_dag.description.describing` joins that with
the work that is open.
"""
