-- The same encoding as `log._encoded`; the database's encoding must be UTF-8.
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
  NEW.hash := encode(sha256(convert_to(
    CASE WHEN NEW.number IS NULL THEN '-' ELSE octet_length(NEW.number::text) || ':' || NEW.number::text END
    || CASE WHEN NEW.at IS NULL THEN '-' ELSE octet_length(NEW.at::text) || ':' || NEW.at::text END
    || CASE WHEN NEW.db_user IS NULL THEN '-' ELSE octet_length(NEW.db_user::text) || ':' || NEW.db_user::text END
    || CASE WHEN NEW.who IS NULL THEN '-' ELSE octet_length(NEW.who::text) || ':' || NEW.who::text END
    || CASE WHEN NEW.act IS NULL THEN '-' ELSE octet_length(NEW.act::text) || ':' || NEW.act::text END
    || CASE WHEN NEW.environment IS NULL THEN '-' ELSE octet_length(NEW.environment::text) || ':' || NEW.environment::text END
    || CASE WHEN NEW.version IS NULL THEN '-' ELSE octet_length(NEW.version::text) || ':' || NEW.version::text END
    || CASE WHEN NEW.detail IS NULL THEN '-' ELSE octet_length(NEW.detail::text) || ':' || NEW.detail::text END
    || CASE WHEN NEW.previous IS NULL THEN '-' ELSE octet_length(NEW.previous::text) || ':' || NEW.previous::text END, 'UTF8'
  )), 'hex');
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION vde_log_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is only added to' USING ERRCODE = '42501';
END $$;

CREATE OR REPLACE TRIGGER vde_log_chain BEFORE INSERT ON vde_log
  FOR EACH ROW EXECUTE FUNCTION vde_log_chain();

CREATE OR REPLACE TRIGGER vde_log_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON vde_log
  FOR EACH STATEMENT EXECUTE FUNCTION vde_log_stays();
