"""A Data Vault: macros that hash and that write queries, and kinds of its tables.

`hashing` has the keys and hashdiffs of this product, which no two different rows share, and
`compatible` those of AutomateDV and of datavault4dbt. `stage` and `generated` write whole queries:
of stages, and of PIT, bridge and other models over a vault's tables. Macros write Spark SQL that
every room understands, so versions and lineage come by themselves. `kinds` and `meanings` are what
kinds say of themselves, `first_seen` and `changes` write their tables, `loaders` gives each source
of a hub a table, and `spellings` has the words of a vault for kinds.
"""
