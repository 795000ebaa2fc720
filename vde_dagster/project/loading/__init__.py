"""From a folder to a `Project`: which files are stale, the cache, putting models together."""
