"""SQLMesh's configuration files (`config.yaml`, `config.py`) as settings of the project."""
