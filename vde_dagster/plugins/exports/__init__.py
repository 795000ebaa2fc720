"""Exports: what a project is, and what happens to it, in the forms of other systems.

`openlineage` follows the state's outbox and tells a receiver of fills, audits and publications;
`commands` writes the project's document (`json_document`), dbt's files (`dbt_artifacts`) or
DataHub's proposals (`datahub`). The libraries of receivers are imported by those who export, and
by nobody else.
"""
