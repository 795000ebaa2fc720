"""Tests of metrics: definitions, the SQL that MetricFlow writes of them, and their readers."""
