"""Classes for physical tables: their columns, changes in place, and reads of earlier states."""
