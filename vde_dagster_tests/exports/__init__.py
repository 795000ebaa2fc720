"""Exports, read by receivers and judged by their own schemas."""
