"""Who did what, and who may: `vde log` shows and checks the log, `vde roles` gives rights.

What the log and rights are is the state's own (`state.db`), since every writer keeps to them.
"""
