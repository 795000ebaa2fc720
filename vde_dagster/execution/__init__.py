"""Applying plans: walk the DAG, fill intervals, audit, publish, recover."""
