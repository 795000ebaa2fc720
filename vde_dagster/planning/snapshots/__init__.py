"""Snapshots: models as defined at one moment, with their stored form and their lineage."""
