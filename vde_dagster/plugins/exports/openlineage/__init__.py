"""OpenLineage: records of the outbox as its events, sent by its own client.

`datasets` names tables and views and says what their columns are made of, `runs` makes the events
of fills, `publications` those of environments; `deliver` sends them. Run ids follow from what is
told, so that an event that is delivered again is the same one.
"""
