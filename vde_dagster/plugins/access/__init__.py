"""Acts and rights: `vde log` shows and verifies the log, `vde roles` grants rights.

The log and rights themselves belong to the state (`state.db`), since every writer follows them.
"""
