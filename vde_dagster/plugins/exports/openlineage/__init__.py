"""OpenLineage: records of the outbox become events, which OpenLineage's own client sends.

`datasets` names tables and views and provides column lineage, `runs` makes the events of fills,
`publications` the events of environments; `deliver` sends them. Run ids are derived from the
records, so that a repeated delivery sends the same event.
"""
