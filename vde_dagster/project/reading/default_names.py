"""Which properties of models the setting `model_defaults` may give, and how they count."""

STATEMENTS = ("pre_statements", "post_statements", "on_virtual_update")
"""Lists of SQL statements, which run before the model's own."""
OF_KINDS = ("on_destructive_change", "on_additive_change", "batch_concurrency")
"""Properties that only some kinds have."""
JOINED = ("physical_properties", "virtual_properties", "audits")
"""Properties that count beside what a model says, and not instead."""
PROPERTIES = (
    *("kind", "start", "table_format", "storage_format", "allow_partials", "interval_unit"),
    *("enabled", *OF_KINDS, *JOINED),
)
