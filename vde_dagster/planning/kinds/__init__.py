"""The kinds' rules for plans; each module registers the rules of some kinds."""

from vde_dagster.planning.kinds import custom, incremental, scd_type_2, seed, simple, unique_key
from vde_dagster.planning.kinds.base import Meaning, meaning_for, meaning_of
