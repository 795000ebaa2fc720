"""The public API: one example for each name, run as a test and printed in the reference."""
