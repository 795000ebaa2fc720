"""The kinds of models and their meaning for plans; a new kind is a new module in this list."""

from vde_dagster.planning.kinds import custom, incremental, scd_type_2, seed, simple, unique_key
from vde_dagster.planning.kinds.base import Meaning, meaning_for, meaning_of
