"""Loading of a folder as a `Project`: changed files, the cache, and the graph of models."""
