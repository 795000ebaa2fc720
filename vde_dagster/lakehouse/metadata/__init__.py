"""Metadata of tables and views as Iceberg's specifications define it. Pure where possible."""
