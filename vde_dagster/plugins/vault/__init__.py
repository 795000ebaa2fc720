"""A Data Vault: macros that write hashes and queries, and kinds for its tables.

`hashing` writes this product's hash keys and hashdiffs, which hash different texts for different
rows. `compatible` writes the hashes of AutomateDV and datavault4dbt. `stage` and `generated` write
whole queries: stages, and PIT, bridge and other models over a vault's tables. Macros write plain
Spark SQL, so versions and lineage are derived as usual. `kinds` and `meanings` define the kinds,
`first_seen` and `changes` write their tables, `loaders` gives each source of a hub a table, and
`spellings` defines Data Vault names for the kinds.
"""
