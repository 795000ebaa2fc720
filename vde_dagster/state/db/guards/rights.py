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
from vde_dagster.state.db.guards.acts import read_statements, run_statements

STALLED_SECONDS = 30
"""Maximum idle seconds of a transaction while others wait for it."""
LONGEST_SECONDS = 60
"""Maximum seconds of a writing transaction of a login without the right to publish."""
_LONGEST_LEASE = 900
"""Seconds that a lease of such a login may last without being renewed."""

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
    functions = [*read_statements("owner"), *read_statements("rights")]
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
    run_statements(connection, (*functions, *statements))
