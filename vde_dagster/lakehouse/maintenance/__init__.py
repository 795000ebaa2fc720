"""The janitor, and `vde fsck`."""
