"""dbt projects: those of fixtures/dbt, with manifests that dbt made and `trim` cut."""
