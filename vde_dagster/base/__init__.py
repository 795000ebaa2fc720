"""Names, times, hashes and small helpers for every layer; it imports no other layer."""
