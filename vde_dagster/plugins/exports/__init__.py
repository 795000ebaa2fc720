"""Exports: a project and its events in the forms of other systems.

`openlineage` follows the state's outbox and sends fills, audits and publications to a receiver;
`commands` writes the project's document as JSON, dbt's files (`dbt_artifacts`) or DataHub's
proposals (`datahub`). A receiver's library is imported only by the exporter that needs it.
"""
