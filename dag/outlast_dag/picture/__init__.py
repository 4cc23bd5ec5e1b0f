"""How is a DAG drawn?

:mod:`~outlast_dag.picture.layout` decides where boxes and edges lie, :mod:`~outlast_dag.picture.svg` draws them.
:mod:`~outlast_dag.picture.mermaid` writes a flowchart that others draw.
"""
