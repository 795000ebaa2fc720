"""Metadata of tables and views as Iceberg's specifications have it. Pure where it can be."""
