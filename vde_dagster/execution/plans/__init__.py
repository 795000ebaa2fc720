"""Creation of plans, from a project's files or from the published models of an environment."""
