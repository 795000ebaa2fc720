"""Sources of models: each takes files of the project and reads their definitions."""
