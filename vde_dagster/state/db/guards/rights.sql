CREATE OR REPLACE FUNCTION vde_has(wanted text) RETURNS boolean LANGUAGE plpgsql STABLE {own} AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM vde_rights r JOIN pg_roles p ON p.rolname = r.role
    WHERE r.name = wanted AND pg_has_role(session_user, p.oid, 'MEMBER')
  ) OR vde_is_owner();
END $$;

CREATE OR REPLACE FUNCTION vde_require(wanted text) RETURNS void LANGUAGE plpgsql STABLE {own} AS $$
BEGIN
  IF NOT vde_has(wanted) THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'that needs the right to ' || wanted
      || coalesce(', which members of the role ' || (SELECT role FROM vde_rights
      WHERE name = wanted) || ' have', ' the tables');
  END IF;
END $$;

CREATE OR REPLACE FUNCTION vde_guard() RETURNS trigger LANGUAGE plpgsql {own} AS $$
BEGIN
  PERFORM vde_require(TG_ARGV[0]);
  RETURN coalesce(NEW, OLD);
END $$;

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
END $$;

-- Whether a plan, or the id of a run in its place, belongs to production.
CREATE OR REPLACE FUNCTION vde_plans_production(id text) RETURNS boolean
LANGUAGE plpgsql STABLE {own} AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM vde_plans WHERE plan_id = id AND environment = '{production}'
  );
END $$;

-- Rows about a table: filled, noted and pending ranges, and its head.
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
  RETURN coalesce(NEW, OLD);
END $$;

-- The ledger: new tables are live and empty, and take no name that the catalog has.
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
END $$;

-- Pointers: those in production's namespaces, of its views wherever they are, and of tables
-- that it shows; only the janitor removes a table's own pointer.
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
  RETURN coalesce(NEW, OLD);
END $$;

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
  RETURN coalesce(NEW, OLD);
END $$;

-- A lease belongs to the login that took it, for as long as it lasts.
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
END $$;

CREATE OR REPLACE FUNCTION vde_hold_lease(of text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER {own} AS $$
BEGIN
  PERFORM FROM vde_leases WHERE resource = of
    AND (db_user = session_user OR vde_has('publish')) FOR UPDATE;
END $$;

CREATE OR REPLACE FUNCTION vde_hold_publication(id text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER {own} AS $$
BEGIN
  PERFORM FROM vde_publications WHERE publication_id = id AND (
    vde_has('publish') OR vde_has('apply') AND environment <> '{production}'
  ) FOR UPDATE;
END $$;

-- Only for logins that may publish: others could block all publications with one transaction.
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
END $$;

-- Records of the outbox: only logins that may change production record changes of it.
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
END $$;

-- Numbers new records, for one reader at a time; see `outbox`.
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
END $$;

CREATE OR REPLACE FUNCTION vde_guard_audit() RETURNS trigger LANGUAGE plpgsql {own} AS $$
DECLARE
  of jsonb := to_jsonb(CASE TG_OP WHEN 'INSERT' THEN NEW ELSE OLD END);
  environment text := coalesce(of ->> 'environment',
    (SELECT p.environment FROM vde_plans p WHERE p.plan_id = of ->> 'plan_id'));
BEGIN
  IF TG_OP = 'UPDATE' OR environment IS NULL OR environment = '{production}' THEN
    PERFORM vde_require('publish');
  END IF;
  RETURN coalesce(NEW, OLD);
END $$;

-- Output types of VIEW models are marked if a login without the right to publish wrote them.
CREATE OR REPLACE FUNCTION vde_guard_types() RETURNS trigger LANGUAGE plpgsql {own} AS $$
BEGIN
  NEW.db_user := CASE WHEN NOT vde_has('publish') THEN session_user END;
  IF NEW.db_user IS NOT NULL AND TG_OP = 'UPDATE' AND (
    OLD.db_user IS NULL OR NEW.snapshot_id <> OLD.snapshot_id
  ) THEN
    PERFORM vde_require('publish');
  END IF;
  RETURN NEW;
END $$;

-- Entries begin and end with their environment's next version, and never change.
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
END $$;

-- Ends stalled transactions, of logins without ownership, that lock the state's tables.
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
END $$;

-- A change of an environment by plain SQL is logged as such. A logged row accounts for a change
-- only if its act changes environments, and names this version where the act creates a version.
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
END $$;

-- A row of the log needs its act in the same transaction.
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
END $$;
