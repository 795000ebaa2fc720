"""OpenLineage: records of the outbox as its events, sent by its own client.

`datasets` names tables and views and provides column lineage, `runs` makes the events of fills,
`publications` the events of environments; `deliver` sends them. Run ids are derived from the
records, so that a repeated delivery is the same event.
"""
