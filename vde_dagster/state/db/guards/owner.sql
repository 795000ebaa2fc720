-- In PL/pgSQL, because a session caches its plans, unlike those of SQL functions.
CREATE OR REPLACE FUNCTION vde_is_owner() RETURNS boolean LANGUAGE plpgsql STABLE {own} AS $$
BEGIN
  RETURN (SELECT pg_has_role(session_user, relowner, 'MEMBER') FROM pg_class
    WHERE oid = 'vde_log'::regclass);
END $$;
