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


_RIGHTS = (
    """
CREATE OR REPLACE FUNCTION vde_require(wanted text) RETURNS void LANGUAGE plpgsql STABLE {own} AS $$
DECLARE needed text;
BEGIN
  IF vde_is_owner() THEN
    RETURN;
  END IF;
  SELECT role INTO needed FROM vde_rights WHERE name = wanted;
  IF needed IS NULL OR NOT pg_has_role(session_user, needed, 'MEMBER') THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'that needs the right to ' || wanted
      || coalesce(', which members of the role ' || needed || ' have', ' the tables');
  END IF;
END $$""",
    """
CREATE OR REPLACE FUNCTION vde_guard() RETURNS trigger LANGUAGE plpgsql {own} AS $$
BEGIN
  PERFORM vde_require(TG_ARGV[0]);
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $$""",
    # Pointers in production's namespaces, and those of views of it that are in others'.
    """
CREATE OR REPLACE FUNCTION vde_guard_pointer() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE places jsonb := '[]';
BEGIN
  IF TG_OP <> 'INSERT' THEN
    places := places || to_jsonb(OLD);
  END IF;
  IF TG_OP <> 'DELETE' THEN
    places := places || to_jsonb(NEW);
  END IF;
  IF EXISTS (
    SELECT FROM jsonb_array_elements(places) AS at, vde_namespaces AS n
    WHERE n.environment = '{production}' AND n.catalog_name = at ->> 'catalog_name'
      AND n.namespace = at ->> TG_ARGV[0]
  ) OR EXISTS (
    SELECT FROM jsonb_array_elements(places) AS at, vde_views AS v
    WHERE v.environment = '{production}' AND v.catalog_name = at ->> 'catalog_name'
      AND v.namespace = at ->> TG_ARGV[0] AND v.name = at ->> 'table_name'
  ) THEN
    PERFORM vde_require('publish');
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $$""",
    # Whoever changes an environment by SQL of his own is in the log, too.
    """
CREATE OR REPLACE FUNCTION vde_logged() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE of text := CASE TG_OP WHEN 'DELETE' THEN OLD.environment ELSE NEW.environment END;
BEGIN
  IF current_setting('vde.import', true) = 'on' AND vde_is_owner() THEN
    RETURN NULL;
  END IF;
  IF (SELECT xmin FROM vde_log WHERE environment = of ORDER BY number DESC LIMIT 1)
    IS DISTINCT FROM pg_current_xact_id()::xid
  THEN
    INSERT INTO vde_log (number, at, who, act, environment, detail, previous, hash) VALUES (
      0, 0, left(current_setting('application_name'), 255), 'sql', of,
      json_build_object('done', TG_OP, 'table', TG_TABLE_NAME), '', ''
    );
  END IF;
  RETURN NULL;
END $$""",
)
_OF_PRODUCTION = "{0}.environment = '{production}'"
_STATEMENTS_OF_PRODUCTION = (
    "{0}.step IN ('on virtual update {production}', 'before and after all {production}')"
)
_GUARDED = {
    "vde_environments": _OF_PRODUCTION,
    "vde_environment_versions": _OF_PRODUCTION,
    "vde_entries": _OF_PRODUCTION,
    "vde_pins": _OF_PRODUCTION,
    "vde_views": _OF_PRODUCTION,
    "vde_namespaces": _OF_PRODUCTION,
    "vde_tokens": _OF_PRODUCTION,
    "vde_leases": "{0}.resource = 'environment/{production}'",
    "vde_journal": _STATEMENTS_OF_PRODUCTION,
}
"""Rows that only who may publish writes, by table, as a condition on the row."""
_GUARDED_HERE = (
    ("vde_plans", "UPDATE", "publish", "OLD.environment = '{production}'"),
    ("vde_publications", "INSERT", "publish", "NEW.environment = '{production}'"),
    ("vde_publications", "DELETE", "publish", "OLD.environment = '{production}'"),
    # Whoever comes next moves the pointers of what production has decided.
    (
        "vde_publications",
        "UPDATE",
        "publish",
        "'{production}' IN (OLD.environment, NEW.environment) AND (OLD.status = 'intended' OR "
        "NEW.files <> OLD.files OR NEW.environment <> OLD.environment)",
    ),
    ("vde_mirrored_views", "INSERT", "publish", "NEW.environment = '{production}'"),
    (
        "vde_mirrored_views",
        "UPDATE",
        "publish",
        "'{production}' IN (OLD.environment, NEW.environment) AND "
        "(OLD.environment, OLD.wanted_hash, OLD.definition) IS DISTINCT FROM "
        "(NEW.environment, NEW.wanted_hash, NEW.definition)",
    ),
    (
        "vde_mirrored_views",
        "DELETE",
        "publish",
        "OLD.environment = '{production}' AND OLD.wanted_hash IS NOT NULL",
    ),
    # What nothing reaches is given up by the janitor alone, which may remove what production shows.
    ("vde_tables", "UPDATE", "publish", "NEW.status <> OLD.status AND NEW.status <> 'live'"),
    # Nobody writes that he did what he may not do.
    (
        "vde_log",
        "INSERT",
        "publish",
        "NEW.act IN ('clean up', 'give up', 'remove') OR "
        "NEW.environment = '{production}' AND NEW.act NOT IN ('sign', 'sql')",
    ),
    ("vde_log", "INSERT", "apply", "NEW.act NOT IN ('sign', 'sql')"),
    ("vde_log", "INSERT", "own", "NEW.act IN ('roles', 'grant', 'revoke', 'import')"),
)
"""(table, what is done, the right that it needs, a condition on the row)."""
_POINTERS = {"iceberg_tables": "table_namespace", "iceberg_namespace_properties": "namespace"}


def put_guards_of_rights(connection: Connection) -> None:
    """Put on the tables what keeps logins to their rights, in place of older guards."""
    guards = [
        (table, what, "publish", " OR ".join(condition.format(row, **_NAMES) for row in rows))
        for table, condition in _GUARDED.items()
        for what, rows in (("INSERT", ["NEW"]), ("UPDATE", ["OLD", "NEW"]), ("DELETE", ["OLD"]))
    ]
    guards += [
        (table, what, right, condition.format(**_NAMES))
        for table, what, right, condition in _GUARDED_HERE
    ]
    statements = [
        f"CREATE OR REPLACE TRIGGER vde_guard_{what.lower()}_{right} BEFORE {what} ON {table} "
        f"FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION vde_guard('{right}')"
        for table, what, right, condition in guards
    ]
    for table, column in _POINTERS.items():
        statements.append(
            f"CREATE OR REPLACE TRIGGER vde_guard_pointer BEFORE INSERT OR UPDATE OR DELETE "
            f"ON {table} FOR EACH ROW EXECUTE FUNCTION vde_guard_pointer('{column}')"
        )
    for table in ("vde_environments", "vde_environment_versions", "vde_entries"):
        statements.append(f"DROP TRIGGER IF EXISTS vde_logged ON {table}")
        statements.append(
            f"CREATE CONSTRAINT TRIGGER vde_logged AFTER INSERT OR UPDATE OR DELETE ON {table} "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vde_logged()"
        )
    _run(connection, (*_RIGHTS, *statements))


_NAMES = {"production": PRODUCTION}


def put_guards(connection: Connection) -> None:
    """Put the triggers on the state's tables, in place of older ones."""
    if connection.dialect.name == "sqlite":
        for statement in _SQLITE:
            connection.exec_driver_sql(statement)
        return
    _run(connection, _POSTGRESQL)


def _run(connection: Connection, statements: Iterable[str]) -> None:
    place: str = connection.execute(text("SELECT quote_ident(current_schema())")).scalar_one()
    own = _OWN.format(schema=place)
    for statement in statements:
        written = statement.replace("{own}", own).replace("{production}", PRODUCTION)
        connection.exec_driver_sql(written)
