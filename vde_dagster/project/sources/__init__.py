"""Sources of models: each accepts some files of the project and reads their definitions."""
