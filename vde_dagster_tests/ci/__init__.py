"""Tests of pull requests: forges, checks, deployments."""
