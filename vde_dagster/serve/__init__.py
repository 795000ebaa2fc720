"""Environments for any engine: an Iceberg REST catalog, and rows over HTTP. It only reads.

`shown_tables` decides what is a table for clients: those of models, and views that only select
from one; `loading` makes the metadata of the answers, `read_rows` reads at a version's pins.
"""
