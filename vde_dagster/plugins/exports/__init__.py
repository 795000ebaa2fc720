"""Exports: a project and its events in the forms of other systems.

`openlineage` follows the state's outbox and sends events to a receiver. `commands` writes the
project as JSON, dbt's files or DataHub's proposals.
"""
