"""Guards of rights: triggers on PostgreSQL that check each row that a login writes.

They run for every row, for every program that writes it, and look up the roles of the connection's
login (`session_user`, which a client cannot set). Rows about production need the right to publish.
Rows that represent an act (a lease, a record of the outbox, a row of the log) are accepted only as
part of that act. The owner of the tables is exempt.
"""

from __future__ import annotations

from sqlalchemy import Connection

from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.tables.table import PREVIEW_PREFIX
from vde_dagster.state.db.guards.acts import ACTS_ARE_TRUE, IS_OWNER, run_statements

STALLED_SECONDS = 30
"""Maximum idle seconds of a transaction while others wait for it."""
LONGEST_SECONDS = 60
"""Maximum seconds of a writing transaction of a login without the right to publish."""
_LONGEST_LEASE = 900
"""Seconds that a lease of such a login may last without being renewed."""

_FUNCTIONS = (
    IS_OWNER,
    """
CREATE OR REPLACE FUNCTION vde_has(wanted text) RETURNS boolean LANGUAGE plpgsql STABLE {own} AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM vde_rights r JOIN pg_roles p ON p.rolname = r.role
    WHERE r.name = wanted AND pg_has_role(session_user, p.oid, 'MEMBER')
  ) OR vde_is_owner();
END $$""",
    """
CREATE OR REPLACE FUNCTION vde_require(wanted text) RETURNS void LANGUAGE plpgsql STABLE {own} AS $$
BEGIN
  IF NOT vde_has(wanted) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'that needs the right to ' || wanted
      || coalesce(', which members of the role ' || (SELECT role FROM vde_rights
      WHERE name = wanted) || ' have', ' the tables');
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
    """
CREATE OR REPLACE FUNCTION vde_shown_by_production(id text) RETURNS boolean
LANGUAGE plpgsql STABLE {own} AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM vde_entries e
    WHERE e.table_id = id AND e.environment = '{production}' AND e.valid_to IS NULL
  ) OR EXISTS (
    SELECT FROM vde_pins p
    WHERE p.table_id = id AND p.environment = '{production}' AND p.valid_to IS NULL
  );
END $$""",
    # Whether a plan, or the id of a run in its place, belongs to production.
    """
CREATE OR REPLACE FUNCTION vde_plans_production(id text) RETURNS boolean
LANGUAGE plpgsql STABLE {own} AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM vde_plans WHERE plan_id = id AND environment = '{production}'
  );
END $$""",
    # Rows about a table: filled, noted and pending ranges, and its head.
    """
CREATE OR REPLACE FUNCTION vde_guard_table() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE
  of jsonb;
BEGIN
  IF NOT vde_has('publish') THEN
    FOR of IN SELECT one FROM unnest(ARRAY[
      CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
      CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END
    ]) AS one WHERE one IS NOT NULL
    LOOP
      IF vde_shown_by_production(of ->> 'table_id')
        OR TG_TABLE_NAME IN ('vde_pending_intervals', 'vde_fills')
        AND vde_plans_production(of ->> 'plan_id')
      THEN
        PERFORM vde_require('publish');
      END IF;
    END LOOP;
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $$""",
    # The ledger: new tables are live and empty, and take no name that the catalog has.
    """
CREATE OR REPLACE FUNCTION vde_guard_ledger() RETURNS trigger LANGUAGE plpgsql {own} AS $$
BEGIN
  IF vde_has('publish') THEN
    RETURN NEW;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF (NEW.table_id, NEW.namespace, NEW.name, NEW.status, NEW.location, NEW.tombstoned_at)
      IS DISTINCT FROM
      (OLD.table_id, OLD.namespace, OLD.name, OLD.status, OLD.location, OLD.tombstoned_at)
      OR vde_shown_by_production(OLD.table_id)
    THEN
      PERFORM vde_require('publish');
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.status <> 'live' OR NEW.created OR NEW.location IS NOT NULL
    OR NEW.tombstoned_at IS NOT NULL
    OR position('@{preview}' IN NEW.name) = 0 AND EXISTS (
      SELECT FROM iceberg_tables i
      WHERE i.table_namespace = NEW.namespace AND i.table_name = NEW.name
    )
    OR position('@{preview}' IN NEW.name) > 0 AND EXISTS (
      SELECT FROM vde_tables t
      WHERE t.namespace = NEW.namespace AND t.name = split_part(NEW.name, '@{preview}', 1)
        AND vde_shown_by_production(t.table_id)
    )
    OR NEW.namespace IN (SELECT namespace FROM vde_namespaces)
  THEN
    PERFORM vde_require('publish');
  END IF;
  RETURN NEW;
END $$""",
    # Pointers: those in production's namespaces, of its views wherever they are, and of tables
    # that it shows; only the janitor removes a table's own pointer.
    """
CREATE OR REPLACE FUNCTION vde_guard_pointer() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE
  at jsonb;
  place text;
BEGIN
  IF NOT vde_has('publish') THEN
    FOR at IN SELECT one FROM unnest(ARRAY[
      CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
      CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END
    ]) AS one WHERE one IS NOT NULL
    LOOP
      place := at ->> TG_ARGV[0];
      IF EXISTS (
        SELECT FROM vde_namespaces n WHERE n.environment = '{production}'
          AND n.catalog_name = at ->> 'catalog_name' AND n.namespace = place
      ) OR EXISTS (
        SELECT FROM vde_views v WHERE v.environment = '{production}'
          AND v.catalog_name = at ->> 'catalog_name' AND v.namespace = place
          AND v.name = at ->> 'table_name'
      ) OR EXISTS (
        SELECT FROM vde_tables t WHERE t.namespace = place
          AND split_part(t.name, '@{preview}', 1) = at ->> 'table_name'
          AND vde_shown_by_production(t.table_id)
      ) THEN
        PERFORM vde_require('publish');
      END IF;
    END LOOP;
    IF TG_OP = 'DELETE' AND (
      EXISTS (
        SELECT FROM vde_tables t WHERE t.namespace = place AND t.name = OLD.table_name
      ) OR NOT EXISTS (
        SELECT FROM vde_namespaces n
        WHERE n.catalog_name = OLD.catalog_name AND n.namespace = place
      ) AND NOT EXISTS (
        SELECT FROM vde_views v WHERE v.catalog_name = OLD.catalog_name
          AND v.namespace = place AND v.name = OLD.table_name
      )
    ) THEN
      PERFORM vde_require('publish');
    END IF;
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $$""",
    """
CREATE OR REPLACE FUNCTION vde_guard_namespace() RETURNS trigger LANGUAGE plpgsql {own} AS $$
BEGIN
  IF NOT vde_has('publish') AND (
    EXISTS (
      SELECT FROM vde_namespaces n WHERE n.environment = '{production}'
        AND n.namespace = CASE TG_OP WHEN 'DELETE' THEN OLD.namespace ELSE NEW.namespace END
    ) OR TG_OP <> 'INSERT' AND NOT EXISTS (
      SELECT FROM vde_namespaces n
      WHERE n.catalog_name = OLD.catalog_name AND n.namespace = OLD.namespace
    )
  ) THEN
    PERFORM vde_require('publish');
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $$""",
    # A lease belongs to the login that took it, for as long as it lasts.
    """
CREATE OR REPLACE FUNCTION vde_guard_lease() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE
  now bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000);
BEGIN
  IF NOT vde_has('publish') THEN
    IF NEW.resource = 'environment/{production}'
      OR starts_with(NEW.resource, 'table/') AND vde_shown_by_production(substr(NEW.resource, 7))
    THEN
      PERFORM vde_require('publish');
    END IF;
    IF TG_OP = 'INSERT' AND NEW.token <> 1
      OR TG_OP = 'UPDATE' AND (
        NEW.resource <> OLD.resource OR NEW.token NOT IN (OLD.token, OLD.token + 1)
        OR OLD.owner IS NOT NULL AND OLD.expires_at > now + 1000000
        AND OLD.db_user IS DISTINCT FROM session_user
      )
      OR NEW.expires_at > now + {longest_lease} * 1000000::bigint
    THEN
      RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'the lease on ' || NEW.resource
        || ' is that of another login, or ends too late';
    END IF;
  END IF;
  NEW.db_user := CASE WHEN NEW.owner IS NOT NULL THEN session_user END;
  RETURN NEW;
END $$""",
    """
CREATE OR REPLACE FUNCTION vde_hold_lease(of text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER {own} AS $$
BEGIN
  PERFORM FROM vde_leases WHERE resource = of
    AND (db_user = session_user OR vde_has('publish')) FOR UPDATE;
END $$""",
    """
CREATE OR REPLACE FUNCTION vde_hold_publication(id text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER {own} AS $$
BEGIN
  PERFORM FROM vde_publications WHERE publication_id = id AND (
    vde_has('publish') OR vde_has('apply') AND environment <> '{production}'
  ) FOR UPDATE;
END $$""",
    # Only for logins that may publish: others could block all publications with one transaction.
    """
CREATE OR REPLACE FUNCTION vde_hold_tables(names text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER {own} AS $$
DECLARE
  name text;
BEGIN
  IF vde_has('publish') THEN
    FOREACH name IN ARRAY names LOOP
      IF starts_with(name, 'vde_') THEN
        EXECUTE format('LOCK TABLE %I IN EXCLUSIVE MODE', name);
      END IF;
    END LOOP;
  END IF;
END $$""",
    # Records of the outbox: only logins that may change production record changes of it.
    """
CREATE OR REPLACE FUNCTION vde_guard_news() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE
  about jsonb;
BEGIN
  IF TG_OP = 'DELETE' THEN
    PERFORM vde_require(CASE OLD.kind WHEN 'cursor' THEN 'apply' ELSE 'publish' END);
    RETURN OLD;
  END IF;
  IF vde_has('publish') THEN
    RETURN NEW;
  END IF;
  IF NEW.number IS NOT NULL OR NEW.kind IN ('store', 'dropped') THEN
    PERFORM vde_require('publish');
  END IF;
  about := CASE WHEN NEW.kind <> 'cursor' THEN NEW.subject::jsonb END;
  IF NEW.kind = 'plan' THEN
    PERFORM vde_require(CASE WHEN EXISTS (
      SELECT FROM vde_plans WHERE plan_id = about ->> 'plan' AND status = 'planned'
    ) THEN 'plan' ELSE 'publish' END);
  ELSIF NEW.kind <> 'held' THEN
    PERFORM vde_require('apply');
    IF NEW.kind IN ('cursor', 'told', 'late') THEN
      RETURN NEW;
    END IF;
    IF about ->> 'environment' = '{production}' OR vde_plans_production(about ->> 'plan')
      OR vde_shown_by_production(about ->> 'table')
    THEN
      PERFORM vde_require('publish');
    END IF;
  END IF;
  RETURN NEW;
END $$""",
    # Numbers new records, for one reader at a time; see `outbox`.
    """
CREATE OR REPLACE FUNCTION vde_number_news() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER {own} AS $$
BEGIN
  PERFORM vde_require('plan');
  PERFORM FROM vde_news WHERE kind = 'store' FOR UPDATE;
  UPDATE vde_news n SET number = found.number FROM (
    SELECT seq, (SELECT coalesce(max(number), 0) FROM vde_news)
      + row_number() OVER (ORDER BY seq) AS number
    FROM vde_news WHERE number IS NULL AND kind <> 'cursor'
  ) AS found WHERE n.seq = found.seq;
END $$""",
    """
CREATE OR REPLACE FUNCTION vde_guard_audit() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE
  of jsonb := to_jsonb(CASE TG_OP WHEN 'INSERT' THEN NEW ELSE OLD END);
  environment text := coalesce(of ->> 'environment',
    (SELECT p.environment FROM vde_plans p WHERE p.plan_id = of ->> 'plan_id'));
BEGIN
  IF TG_OP = 'UPDATE' OR environment IS NULL OR environment = '{production}' THEN
    PERFORM vde_require('publish');
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $$""",
    # Output types of VIEW models are marked if a login without the right to publish wrote them.
    """
CREATE OR REPLACE FUNCTION vde_guard_types() RETURNS trigger LANGUAGE plpgsql {own} AS $$
BEGIN
  NEW.db_user := CASE WHEN NOT vde_has('publish') THEN session_user END;
  IF NEW.db_user IS NOT NULL AND TG_OP = 'UPDATE' AND (
    OLD.db_user IS NULL OR NEW.snapshot_id <> OLD.snapshot_id
  ) THEN
    PERFORM vde_require('publish');
  END IF;
  RETURN NEW;
END $$""",
    # Entries begin and end with their environment's next version, and never change.
    """
CREATE OR REPLACE FUNCTION vde_guard_entry() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE
  next integer;
BEGIN
  IF vde_is_owner() THEN
    RETURN NEW;
  END IF;
  next := coalesce((SELECT version FROM vde_environments e
    WHERE e.environment = NEW.environment), 0) + 1;
  IF TG_OP = 'INSERT' AND (NEW.valid_from <> next OR NEW.valid_to IS NOT NULL)
    OR TG_OP = 'UPDATE' AND (
      OLD.valid_to IS NOT NULL OR NEW.valid_to IS DISTINCT FROM next
      OR to_jsonb(NEW) - 'valid_to' <> to_jsonb(OLD) - 'valid_to'
    )
  THEN
    RAISE EXCEPTION USING ERRCODE = '42501',
      MESSAGE = 'entries are written with the next version of their environment alone';
  END IF;
  RETURN NEW;
END $$""",
    # Ends stalled transactions, of logins without ownership, that lock the state's tables.
    """
CREATE OR REPLACE FUNCTION vde_end_stalled() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER {own} AS $$
DECLARE
  one record;
  ended integer := 0;
BEGIN
  PERFORM vde_require('plan');
  FOR one IN
    SELECT DISTINCT a.pid FROM pg_stat_activity a
    JOIN pg_locks l ON l.pid = a.pid AND l.database = a.datid AND l.locktype = 'relation'
      AND l.mode <> 'AccessShareLock'
    JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = (
      SELECT relnamespace FROM pg_class WHERE oid = 'vde_log'::regclass)
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND NOT pg_has_role(a.usesysid, c.relowner, 'MEMBER')
      AND EXISTS (SELECT FROM vde_rights r JOIN pg_roles p ON p.rolname = r.role
        WHERE pg_has_role(a.usesysid, p.oid, 'MEMBER'))
      AND (
        a.state LIKE 'idle in transaction%'
        AND a.state_change < clock_timestamp() - interval '{stalled} seconds'
        OR NOT EXISTS (SELECT FROM vde_rights r JOIN pg_roles p ON p.rolname = r.role
          WHERE r.name = 'publish' AND pg_has_role(a.usesysid, p.oid, 'MEMBER'))
        AND a.xact_start < clock_timestamp() - interval '{longest} seconds'
      )
  LOOP
    BEGIN
      IF pg_terminate_backend(one.pid) THEN
        ended := ended + 1;
      END IF;
    EXCEPTION WHEN insufficient_privilege THEN
      NULL;  -- The owner was not granted pg_signal_backend.
    END;
  END LOOP;
  RETURN ended;
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
    "vde_journal": _STATEMENTS_OF_PRODUCTION,
}
"""Rows that need the right to publish, by table, as a condition on the row."""
_GUARDED_HERE = (
    ("vde_plans", "UPDATE", "publish", "OLD.environment = '{production}'"),
    # A plan that was just stored has not started.
    (
        "vde_plans",
        "INSERT",
        "publish",
        "(NEW.status, NEW.started_at, NEW.finished_at, NEW.message) IS DISTINCT FROM "
        "('planned', NULL, NULL, NULL)",
    ),
    # Only the janitor names files to delete; no login names files of another environment.
    (
        "vde_publications",
        "INSERT",
        "publish",
        "NEW.environment IN ('', '{production}') OR NEW.status <> 'intended'",
    ),
    (
        "vde_publications",
        "DELETE",
        "publish",
        "OLD.environment IN ('', '{production}') OR OLD.status <> 'intended'",
    ),
    # The next process that may publish moves the pointers that production decided on.
    (
        "vde_publications",
        "UPDATE",
        "publish",
        "OLD.environment IN ('', '{production}') OR NEW.environment <> OLD.environment "
        "OR NEW.publication_id <> OLD.publication_id OR NEW.files <> OLD.files "
        "OR NEW.status = 'unused'",
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
    ("vde_project", "UPDATE", "publish", "true"),
    ("vde_project", "INSERT", "publish", "NEW.number <> 1"),
    # No login can log an act that it may not perform.
    (
        "vde_log",
        "INSERT",
        "publish",
        "NEW.act IN ('clean up', 'give up', 'remove') OR "
        "NEW.environment = '{production}' AND NEW.act <> 'sign'",
    ),
    ("vde_log", "INSERT", "apply", "NEW.act <> 'sign'"),
    ("vde_log", "INSERT", "own", "NEW.act IN ('roles', 'grant', 'revoke', 'import')"),
)
"""(table, operation, required right, condition on the row)."""
_EVERY = "INSERT OR UPDATE OR DELETE"
_BY_FUNCTION = {
    "vde_intervals": (_EVERY, "vde_guard_table()"),
    "vde_fills": (_EVERY, "vde_guard_table()"),
    "vde_parts": (_EVERY, "vde_guard_table()"),
    "vde_outdated": (_EVERY, "vde_guard_table()"),
    "vde_pending_intervals": (_EVERY, "vde_guard_table()"),
    "vde_heads": (_EVERY, "vde_guard_table()"),
    "vde_tables": ("INSERT OR UPDATE", "vde_guard_ledger()"),
    "vde_leases": ("INSERT OR UPDATE", "vde_guard_lease()"),
    "vde_news": ("INSERT OR DELETE", "vde_guard_news()"),
    "vde_audit_results": (_EVERY, "vde_guard_audit()"),
    "vde_view_types": ("INSERT OR UPDATE", "vde_guard_types()"),
    "vde_entries": ("INSERT OR UPDATE", "vde_guard_entry()"),
    "iceberg_tables": (_EVERY, "vde_guard_pointer('table_namespace')"),
    "iceberg_namespace_properties": (_EVERY, "vde_guard_namespace()"),
}
"""Guards that check more than the row, by table: operation and function."""
_LOGGED = ("vde_environments", "vde_environment_versions", "vde_entries")
_NAMES = {"production": PRODUCTION}


def put_guards_of_rights(
    connection: Connection, stalled: int = STALLED_SECONDS, longest: int = LONGEST_SECONDS
) -> None:
    """Create the guards on the tables, replacing older ones.

    Args:
        stalled: Seconds that a transaction may be idle while others wait for it.
        longest: Seconds that a writing transaction of a login that may not publish may take.
    """
    limits = {"{stalled}": stalled, "{longest}": longest, "{longest_lease}": _LONGEST_LEASE}
    functions = list(_FUNCTIONS)
    for name, value in {**limits, "{preview}": PREVIEW_PREFIX}.items():
        functions = [one.replace(name, str(value)) for one in functions]
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
        "DO $$ DECLARE one record; BEGIN FOR one IN SELECT tgname, tgrelid::regclass AS place "
        "FROM pg_trigger WHERE starts_with(tgname, 'vde_guard') AND tgrelid IN (SELECT oid FROM "
        "pg_class WHERE relnamespace = current_schema()::regnamespace) LOOP EXECUTE "
        "format('DROP TRIGGER %I ON %s', one.tgname, one.place); END LOOP; END $$"
    ]
    statements += [
        f"CREATE TRIGGER vde_guard_{what.lower()}_{right} BEFORE {what} ON {table} "
        f"FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION vde_guard('{right}')"
        for table, what, right, condition in guards
    ]
    statements += [
        f"CREATE TRIGGER vde_guard_rows BEFORE {what} ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {function}"
        for table, (what, function) in _BY_FUNCTION.items()
    ]
    for table in _LOGGED:
        statements.append(f"DROP TRIGGER IF EXISTS vde_logged ON {table}")
        statements.append(
            f"CREATE CONSTRAINT TRIGGER vde_logged AFTER INSERT OR UPDATE OR DELETE ON {table} "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vde_logged()"
        )
    statements.append("DROP TRIGGER IF EXISTS vde_log_true ON vde_log")
    statements.append(
        "CREATE CONSTRAINT TRIGGER vde_log_true AFTER INSERT ON vde_log "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vde_log_true()"
    )
    run_statements(connection, (*functions, *ACTS_ARE_TRUE, *statements))
