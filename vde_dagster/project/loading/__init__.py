"""Loading a folder as a `Project`: stale files, the cache, and the graph of models."""
