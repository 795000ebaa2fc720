"""Triggers, as SQL, that reject rows or fill in columns, for every program.

On both databases no row of the log can be changed or deleted. On PostgreSQL the database sets the
columns that a client could forge: number, time, user and hashes. The owner of the tables and
superusers can drop triggers; if one of them rewrites the log, an earlier copy of a hash proves it.
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
"""Prefix for the state's own tables, whatever search path or temporary tables a session has."""

_ENCODED = "CASE WHEN {0} IS NULL THEN '-' ELSE octet_length({0}::text) || ':' || {0}::text END"
"""Same encoding as `log._encoded`; the database's encoding must be UTF-8."""

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

IS_OWNER = """
CREATE OR REPLACE FUNCTION vde_is_owner() RETURNS boolean LANGUAGE plpgsql STABLE {own} AS $$
BEGIN
  RETURN (SELECT pg_has_role(session_user, relowner, 'MEMBER') FROM pg_class
    WHERE oid = 'vde_log'::regclass);
END $$"""
"""A function in PL/pgSQL, because a session caches its plans, unlike those of SQL functions."""

_POSTGRESQL = (
    IS_OWNER,
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

ACTS_ARE_TRUE = (
    # A change of an environment by plain SQL is logged as such. A logged row accounts for a change
    # only if its act changes environments, and names this version where the act creates a version.
    """
CREATE OR REPLACE FUNCTION vde_logged() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER {own} AS $$
DECLARE
  of text := CASE TG_OP WHEN 'DELETE' THEN OLD.environment ELSE NEW.environment END;
  acts text[] := ARRAY['publish', 'rollback', 'hold', 'freeze', 'drop'];
BEGIN
  IF current_setting('vde.import', true) = 'on' AND vde_is_owner() THEN
    RETURN NULL;
  END IF;
  IF TG_OP = 'DELETE' THEN
    acts := ARRAY['give up'];
  ELSIF TG_TABLE_NAME = 'vde_environments' AND TG_OP = 'UPDATE'
    AND (to_jsonb(NEW) - 'expires_at') = (to_jsonb(OLD) - 'expires_at')
  THEN
    acts := acts || 'expire'::text;
  END IF;
  IF NOT EXISTS (
    SELECT FROM vde_log l WHERE l.environment = of AND l.xmin = pg_current_xact_id()::xid
      AND l.act = ANY (acts) AND (l.act IN ('give up', 'expire') OR l.version = (
        SELECT e.version FROM vde_environments e WHERE e.environment = of
      ))
  ) AND NOT EXISTS (
    SELECT FROM vde_log l WHERE l.environment = of AND l.xmin = pg_current_xact_id()::xid
      AND l.act = 'sql'
  ) THEN
    INSERT INTO vde_log (number, at, who, act, environment, detail, previous, hash) VALUES (
      0, 0, left(current_setting('application_name'), 255), 'sql', of,
      json_build_object('done', TG_OP, 'table', TG_TABLE_NAME), '', ''
    );
  END IF;
  RETURN NULL;
END $$""",
    # A row of the log needs its act in the same transaction.
    """
CREATE OR REPLACE FUNCTION vde_log_true() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER {own} AS $$
DECLARE
  own xid := pg_current_xact_id()::xid;
  about jsonb;
  done boolean := true;
BEGIN
  IF vde_is_owner() THEN
    RETURN NULL;
  END IF;
  about := NEW.detail::jsonb;
  IF NEW.act IN ('publish', 'rollback', 'hold', 'freeze', 'drop') THEN
    done := EXISTS (SELECT FROM vde_environment_versions v WHERE v.xmin = own
      AND v.environment = NEW.environment AND v.version = NEW.version);
  ELSIF NEW.act IN ('apply', 'restate', 'run', 'reject') THEN
    done := EXISTS (SELECT FROM vde_plans p WHERE p.xmin = own
      AND p.plan_id = about ->> 'plan' AND p.environment = NEW.environment);
  ELSIF NEW.act = 'expire' THEN
    done := EXISTS (SELECT FROM vde_environments e WHERE e.xmin = own
      AND e.environment = NEW.environment);
  ELSIF NEW.act = 'views' THEN
    done := EXISTS (SELECT FROM vde_publications p WHERE p.xmin = own
      AND p.environment = NEW.environment);
  ELSIF NEW.act IN ('token', 'revoke token') THEN
    done := EXISTS (SELECT FROM vde_tokens t WHERE t.xmin = own
      AND t.token_id = about ->> 'token' AND t.environment = NEW.environment);
  ELSIF NEW.act = 'sign' THEN
    IF to_regclass('vde_signatures') IS NULL THEN
      done := false;
    ELSE
      EXECUTE 'SELECT EXISTS (SELECT FROM vde_signatures s WHERE s.xmin = $1 AND s.plan_id = $2)'
        INTO done USING own, about ->> 'plan';
    END IF;
  END IF;
  IF NOT done THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'the log takes a row of the act '''
      || NEW.act || ''' only in the transaction that does it';
  END IF;
  RETURN NULL;
END $$""",
)
"""Functions that make the log complete and true, where roles exist."""


def put_guards(connection: Connection) -> None:
    """Create the triggers of the state's tables, replacing older ones."""
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
        connection.exec_driver_sql(written.replace("%", "%%"))  # A single % starts a parameter.
