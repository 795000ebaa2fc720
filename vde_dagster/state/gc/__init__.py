"""Garbage collection: reachability, and the policy of what is kept."""
