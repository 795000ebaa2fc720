"""Virtual data environments for the lakehouse."""
