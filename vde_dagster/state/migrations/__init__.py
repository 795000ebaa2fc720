"""Alembic migrations of the state store; revisions are numbered, from 0015 on."""
