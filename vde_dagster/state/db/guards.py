"""What the database itself refuses or fills in, whatever program writes: triggers, as SQL.

On both databases no row of the log can be changed or deleted. On PostgreSQL the database sets what
a client could lie about: number, time, user and hashes. The owner of the tables can take triggers
away, as can a superuser; that such a one rewrote the log is seen by a hash that somebody kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, text

from vde_dagster.planning.environments.environment import PRODUCTION

_SQLITE = tuple(
    f"CREATE TRIGGER IF NOT EXISTS vde_log_{what.lower()} BEFORE {what} ON vde_log "
    "BEGIN SELECT RAISE(ABORT, 'the log is only added to'); END"
    for what in ("UPDATE", "DELETE")
)

_OWN = "SET search_path = {schema}, pg_temp"
"""Functions find the state's own tables, whatever path or temporary tables a session has."""

_ENCODED = "CASE WHEN {0} IS NULL THEN '-' ELSE octet_length({0}::text) || ':' || {0}::text END"
"""As `log._encoded` writes a value; the database's encoding has to be UTF-8."""

_CHAIN = (
    """
CREATE OR REPLACE FUNCTION vde_log_chain() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE last record;
BEGIN
  IF current_setting('vde.import', true) = 'on' AND vde_is_owner() THEN
    RETURN NEW;
  END IF;
  SELECT number, hash INTO last FROM vde_log ORDER BY number DESC LIMIT 1;
  NEW.number := coalesce(last.number, 0) + 1;
  NEW.previous := coalesce(last.hash, repeat('0', 64));
  NEW.at := floor(extract(epoch FROM clock_timestamp()) * 1000000);
  NEW.db_user := session_user;
  NEW.hash := encode(sha256(convert_to("""
    + " || ".join(
        _ENCODED.format(f"NEW.{name}")
        for name in (
            "number",
            "at",
            "db_user",
            "who",
            "act",
            "environment",
            "version",
            "detail",
            "previous",
        )
    )
    + """, 'UTF8')), 'hex');
  RETURN NEW;
END $$"""
)

_POSTGRESQL = (
    """
CREATE OR REPLACE FUNCTION vde_is_owner() RETURNS boolean LANGUAGE sql STABLE {own} AS $$
  SELECT pg_has_role(session_user, relowner, 'MEMBER') FROM pg_class
  WHERE oid = 'vde_log'::regclass $$""",
    _CHAIN,
    """
CREATE OR REPLACE FUNCTION vde_log_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is only added to' USING ERRCODE = '42501';
END $$""",
    """
CREATE OR REPLACE TRIGGER vde_log_chain BEFORE INSERT ON vde_log
  FOR EACH ROW EXECUTE FUNCTION vde_log_chain()""",
    """
CREATE OR REPLACE TRIGGER vde_log_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON vde_log
  FOR EACH STATEMENT EXECUTE FUNCTION vde_log_stays()""",
)


def put_guards(connection: Connection) -> None:
    """Put the triggers on the state's tables, in place of older ones."""
    if connection.dialect.name == "sqlite":
        for statement in _SQLITE:
            connection.exec_driver_sql(statement)
        return
    run_statements(connection, _POSTGRESQL)


def run_statements(connection: Connection, statements: Iterable[str]) -> None:
    place: str = connection.execute(text("SELECT quote_ident(current_schema())")).scalar_one()
    own = _OWN.format(schema=place)
    for statement in statements:
        written = statement.replace("{own}", own).replace("{production}", PRODUCTION)
        connection.exec_driver_sql(written.replace("%", "%%"))  # One percent sign is a parameter's.
