-- Triggers of an earlier version.
DO $$
DECLARE
  one record;
BEGIN
  FOR one IN
    SELECT tgname, tgrelid::regclass AS place FROM pg_trigger
    WHERE starts_with(tgname, 'vde_guard') AND tgrelid IN (
      SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace)
  LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', one.tgname, one.place);
  END LOOP;
END $$;

-- Rows about production need the right to publish.
DO $$
DECLARE
  place text;
  about text;
BEGIN
  FOREACH place IN ARRAY ARRAY['vde_environments', 'vde_environment_versions', 'vde_entries',
    'vde_pins', 'vde_views', 'vde_namespaces', 'vde_tokens', 'vde_journal']
  LOOP
    about := CASE place WHEN 'vde_journal'
      THEN '%1$s.step IN (''on virtual update {production}'', ''before and after all {production}'')'
      ELSE '%1$s.environment = ''{production}''' END;
    EXECUTE format('CREATE TRIGGER vde_guard_insert_publish BEFORE INSERT ON %I '
      'FOR EACH ROW WHEN (%s) EXECUTE FUNCTION vde_guard(''publish'')', place, format(about, 'NEW'));
    EXECUTE format('CREATE TRIGGER vde_guard_update_publish BEFORE UPDATE ON %I '
      'FOR EACH ROW WHEN (%s OR %s) EXECUTE FUNCTION vde_guard(''publish'')',
      place, format(about, 'OLD'), format(about, 'NEW'));
    EXECUTE format('CREATE TRIGGER vde_guard_delete_publish BEFORE DELETE ON %I '
      'FOR EACH ROW WHEN (%s) EXECUTE FUNCTION vde_guard(''publish'')', place, format(about, 'OLD'));
  END LOOP;
END $$;

CREATE TRIGGER vde_guard_update_publish BEFORE UPDATE ON vde_plans
  FOR EACH ROW WHEN (OLD.environment = '{production}')
  EXECUTE FUNCTION vde_guard('publish');

-- A plan that was just stored has not started.
CREATE TRIGGER vde_guard_insert_publish BEFORE INSERT ON vde_plans
  FOR EACH ROW WHEN ((NEW.status, NEW.started_at, NEW.finished_at, NEW.message)
      IS DISTINCT FROM ('planned', NULL, NULL, NULL))
  EXECUTE FUNCTION vde_guard('publish');

-- Only the janitor names files to delete; no login names files of another environment.
CREATE TRIGGER vde_guard_insert_publish BEFORE INSERT ON vde_publications
  FOR EACH ROW WHEN (NEW.environment IN ('', '{production}') OR NEW.status <> 'intended')
  EXECUTE FUNCTION vde_guard('publish');

CREATE TRIGGER vde_guard_delete_publish BEFORE DELETE ON vde_publications
  FOR EACH ROW WHEN (OLD.environment IN ('', '{production}') OR OLD.status <> 'intended')
  EXECUTE FUNCTION vde_guard('publish');

-- The next process that may publish moves the pointers that production decided on.
CREATE TRIGGER vde_guard_update_publish BEFORE UPDATE ON vde_publications
  FOR EACH ROW WHEN (OLD.environment IN ('', '{production}')
      OR NEW.environment <> OLD.environment OR NEW.publication_id <> OLD.publication_id
      OR NEW.files <> OLD.files OR NEW.status = 'unused')
  EXECUTE FUNCTION vde_guard('publish');

CREATE TRIGGER vde_guard_insert_publish BEFORE INSERT ON vde_mirrored_views
  FOR EACH ROW WHEN (NEW.environment = '{production}')
  EXECUTE FUNCTION vde_guard('publish');

CREATE TRIGGER vde_guard_update_publish BEFORE UPDATE ON vde_mirrored_views
  FOR EACH ROW WHEN ('{production}' IN (OLD.environment, NEW.environment)
      AND (OLD.environment, OLD.wanted_hash, OLD.definition) IS DISTINCT FROM
      (NEW.environment, NEW.wanted_hash, NEW.definition))
  EXECUTE FUNCTION vde_guard('publish');

CREATE TRIGGER vde_guard_delete_publish BEFORE DELETE ON vde_mirrored_views
  FOR EACH ROW WHEN (OLD.environment = '{production}' AND OLD.wanted_hash IS NOT NULL)
  EXECUTE FUNCTION vde_guard('publish');

CREATE TRIGGER vde_guard_update_publish BEFORE UPDATE ON vde_project
  FOR EACH ROW WHEN (true)
  EXECUTE FUNCTION vde_guard('publish');

CREATE TRIGGER vde_guard_insert_publish BEFORE INSERT ON vde_project
  FOR EACH ROW WHEN (NEW.number <> 1)
  EXECUTE FUNCTION vde_guard('publish');

-- No login can log an act that it may not perform.
CREATE TRIGGER vde_guard_insert_publish BEFORE INSERT ON vde_log
  FOR EACH ROW WHEN (NEW.act IN ('clean up', 'give up', 'remove')
      OR NEW.environment = '{production}' AND NEW.act <> 'sign')
  EXECUTE FUNCTION vde_guard('publish');

CREATE TRIGGER vde_guard_insert_apply BEFORE INSERT ON vde_log
  FOR EACH ROW WHEN (NEW.act <> 'sign')
  EXECUTE FUNCTION vde_guard('apply');

CREATE TRIGGER vde_guard_insert_own BEFORE INSERT ON vde_log
  FOR EACH ROW WHEN (NEW.act IN ('roles', 'grant', 'revoke', 'import'))
  EXECUTE FUNCTION vde_guard('own');

-- Guards that check more than the row.
CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON vde_intervals
  FOR EACH ROW EXECUTE FUNCTION vde_guard_table();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON vde_fills
  FOR EACH ROW EXECUTE FUNCTION vde_guard_table();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON vde_parts
  FOR EACH ROW EXECUTE FUNCTION vde_guard_table();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON vde_outdated
  FOR EACH ROW EXECUTE FUNCTION vde_guard_table();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON vde_pending_intervals
  FOR EACH ROW EXECUTE FUNCTION vde_guard_table();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON vde_heads
  FOR EACH ROW EXECUTE FUNCTION vde_guard_table();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE ON vde_tables
  FOR EACH ROW EXECUTE FUNCTION vde_guard_ledger();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE ON vde_leases
  FOR EACH ROW EXECUTE FUNCTION vde_guard_lease();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR DELETE ON vde_news
  FOR EACH ROW EXECUTE FUNCTION vde_guard_news();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON vde_audit_results
  FOR EACH ROW EXECUTE FUNCTION vde_guard_audit();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE ON vde_view_types
  FOR EACH ROW EXECUTE FUNCTION vde_guard_types();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE ON vde_entries
  FOR EACH ROW EXECUTE FUNCTION vde_guard_entry();

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON iceberg_tables
  FOR EACH ROW EXECUTE FUNCTION vde_guard_pointer('table_namespace');

CREATE TRIGGER vde_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON iceberg_namespace_properties
  FOR EACH ROW EXECUTE FUNCTION vde_guard_namespace();

DROP TRIGGER IF EXISTS vde_logged ON vde_environments;

CREATE CONSTRAINT TRIGGER vde_logged AFTER INSERT OR UPDATE OR DELETE ON vde_environments
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vde_logged();

DROP TRIGGER IF EXISTS vde_logged ON vde_environment_versions;

CREATE CONSTRAINT TRIGGER vde_logged AFTER INSERT OR UPDATE OR DELETE ON vde_environment_versions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vde_logged();

DROP TRIGGER IF EXISTS vde_logged ON vde_entries;

CREATE CONSTRAINT TRIGGER vde_logged AFTER INSERT OR UPDATE OR DELETE ON vde_entries
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vde_logged();

DROP TRIGGER IF EXISTS vde_log_true ON vde_log;

CREATE CONSTRAINT TRIGGER vde_log_true AFTER INSERT ON vde_log
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION vde_log_true();
