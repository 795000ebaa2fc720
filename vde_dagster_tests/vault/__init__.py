"""Tests of the plug-in for Data Vaults."""
