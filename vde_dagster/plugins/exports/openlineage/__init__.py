"""OpenLineage: records of the outbox become events, which OpenLineage's own client sends.

Run ids are derived from the records, so a repeated delivery sends the same event.
"""
