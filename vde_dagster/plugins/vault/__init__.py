"""A Data Vault: macros that write hashes and queries, and kinds for its tables.

`hashing` has this product's keys and hashdiffs, which never coincide for different rows;
`compatible` has AutomateDV's and datavault4dbt's. `stage` and `generated` write whole queries:
stages, and PIT, bridge and other models over a vault's tables. Macros write plain Spark SQL, so
versions and lineage need nothing else. `kinds` and `meanings` define the kinds, `first_seen` and
`changes` write their tables, `loaders` gives each source of a hub a table, and `spellings` has a
vault's names for kinds.
"""
