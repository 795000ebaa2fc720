"""Environments for any engine: an Iceberg REST catalog, and rows over HTTP. It only reads."""
