"""Names of SQLMesh's that stand for fixed texts."""

SQLMESH = "sqlmesh"
DEV = "dev"
PROD = "prod"
GATEWAY = "gateway"
EPOCH = "1970-01-01"
