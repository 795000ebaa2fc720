-- Applies a statement on a write view to its table. A row that changed after the statement read it
-- stays unchanged and is not counted, so that a compare and swap is atomic at every isolation level.
DECLARE
  known {table}%ROWTYPE;
  renewed text[];
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM {table} t WHERE t.ctid = OLD.{row_id};
    IF NOT FOUND THEN
      RETURN NULL;
    END IF;
    RETURN OLD;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    UPDATE {table} t SET {changes}
    WHERE t.ctid = OLD.{row_id};
    IF NOT FOUND THEN
      RETURN NULL;
    END IF;
    RETURN NEW;
  END IF;
{defaults}
  IF NEW.{on_conflict} IS NULL THEN
    {into};
    RETURN NEW;
  END IF;
{conflict}
END

-- Inserts a row whose key may exist; an identical row stays.
  SELECT * INTO known FROM {table} t WHERE {key};
  IF NEW.{on_conflict} = '{nothing}' THEN
    IF FOUND THEN
      RETURN NULL;
    END IF;
    {into} ON CONFLICT ({keys}) DO NOTHING;
    IF NOT FOUND THEN
      RETURN NULL;
    END IF;
    RETURN NEW;
  END IF;
  renewed := string_to_array(NEW.{on_conflict}, ',');
  IF FOUND AND {same} THEN
    RETURN NEW;
  END IF;
  PERFORM vde_require('{right}');
  IF NOT renewed <@ ARRAY[{allowed}]::text[] THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'that may not be changed';
  END IF;
  {into} {renew};
  RETURN NEW;
