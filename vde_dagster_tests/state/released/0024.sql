BEGIN TRANSACTION;
CREATE TABLE iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL,namespace VARCHAR(255) NOT NULL,property_key VARCHAR(255),property_value VARCHAR(1000),PRIMARY KEY (catalog_name, namespace, property_key));
CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL,table_namespace VARCHAR(255) NOT NULL,table_name VARCHAR(255) NOT NULL,metadata_location VARCHAR(1000),previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE vde_alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT vde_alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "vde_alembic_version" VALUES('0024');
CREATE TABLE vde_audit_results (
	seq INTEGER NOT NULL, 
	plan_id VARCHAR(64) NOT NULL, 
	table_id VARCHAR(64), 
	model_namespace VARCHAR(255) NOT NULL, 
	model_name VARCHAR(255) NOT NULL, 
	audit TEXT NOT NULL, 
	blocking BOOLEAN NOT NULL, 
	start_at BIGINT NOT NULL, 
	end_at BIGINT NOT NULL, 
	failed_rows BIGINT NOT NULL, 
	sample TEXT NOT NULL, 
	seconds FLOAT NOT NULL, 
	recorded_at BIGINT NOT NULL, environment VARCHAR(64), version INTEGER, 
	PRIMARY KEY (seq)
);
CREATE TABLE vde_change_cursors (
	environment VARCHAR(64) NOT NULL, 
	model_namespace VARCHAR(255) NOT NULL, 
	model_name VARCHAR(255) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	version INTEGER NOT NULL, 
	moved_at BIGINT NOT NULL, 
	moved_by VARCHAR(255) NOT NULL, 
	PRIMARY KEY (environment, model_namespace, model_name, name)
);
INSERT INTO "vde_change_cursors" VALUES('prod','db','orders','billing',2,1795445152429871,'me');
CREATE TABLE vde_entries (
	environment VARCHAR(64) NOT NULL, 
	model_namespace VARCHAR(255) NOT NULL, 
	model_name VARCHAR(255) NOT NULL, 
	valid_from INTEGER NOT NULL, 
	valid_to INTEGER, 
	snapshot_id VARCHAR(64) NOT NULL, 
	table_id VARCHAR(64), held_schema_id INTEGER, held_snapshot_id BIGINT, 
	PRIMARY KEY (environment, model_namespace, model_name, valid_from)
);
INSERT INTO "vde_entries" VALUES('prod','db','orders',1,2,'s1','8caa7a17f5db44bd817cd2abb0263e3a',NULL,NULL);
INSERT INTO "vde_entries" VALUES('prod','db','orders',2,NULL,'s2','8caa7a17f5db44bd817cd2abb0263e3a',NULL,NULL);
CREATE TABLE vde_environment_versions (
	environment VARCHAR(64) NOT NULL, 
	version INTEGER NOT NULL, 
	publication_id VARCHAR(64) NOT NULL, 
	plan_id VARCHAR(64), 
	published_at BIGINT NOT NULL, 
	published_by VARCHAR(255) NOT NULL, 
	expires_at BIGINT, 
	note TEXT NOT NULL, 
	added INTEGER NOT NULL, 
	changed INTEGER NOT NULL, 
	removed INTEGER NOT NULL, 
	dropped BOOLEAN NOT NULL, suffix VARCHAR(16), mode VARCHAR(16), frozen VARCHAR(255), kept BLOB, 
	PRIMARY KEY (environment, version), 
	UNIQUE (publication_id)
);
INSERT INTO "vde_environment_versions" VALUES('prod',1,'f26855561e3945d684f01c8e60bd5fe8',NULL,1704067200000000,'anna',NULL,'',1,0,0,0,NULL,NULL,NULL,NULL);
INSERT INTO "vde_environment_versions" VALUES('prod',2,'daa8fddfbed34667b18a65b693640b51',NULL,1704067200000000,'anna',NULL,'',0,1,0,0,NULL,NULL,NULL,X'789CAB56CA4D2D29CA4C2E56B25250CA4E2D2851AA050042BB0686');
CREATE TABLE vde_environments (
	environment VARCHAR(64) NOT NULL, 
	version INTEGER NOT NULL, 
	live BOOLEAN NOT NULL, 
	expires_at BIGINT, 
	PRIMARY KEY (environment)
);
INSERT INTO "vde_environments" VALUES('prod',2,1,NULL);
CREATE TABLE vde_fills (
	table_id VARCHAR(64) NOT NULL, 
	start_at BIGINT NOT NULL, 
	end_at BIGINT NOT NULL, 
	plan_id VARCHAR(64) NOT NULL, 
	iceberg_snapshot_id BIGINT, 
	row_count BIGINT, 
	recorded_at BIGINT NOT NULL, byte_count BIGINT, seconds FLOAT, inputs TEXT, output TEXT, skipped TEXT, undone BOOLEAN, lacks TEXT, task_seconds FLOAT, bytes_read BIGINT, refresh TEXT, 
	PRIMARY KEY (table_id, start_at, end_at, plan_id)
);
INSERT INTO "vde_fills" VALUES('8caa7a17f5db44bd817cd2abb0263e3a',1704067200000000,1704153600000000,'p1',5,7,1704067200000000,NULL,NULL,NULL,NULL,NULL,NULL,'[[["db","late"],{"ranges":[{"start":"2024-01-02T00:00:00Z","end":"2024-01-03T00:00:00Z"}]}]]',1.5,9,NULL);
INSERT INTO "vde_fills" VALUES('8caa7a17f5db44bd817cd2abb0263e3a',1704153600000000,1704240000000000,'p1',5,7,1704067200000000,NULL,NULL,NULL,NULL,NULL,NULL,'[[["db","late"],{"ranges":[{"start":"2024-01-02T00:00:00Z","end":"2024-01-03T00:00:00Z"}]}]]',NULL,NULL,'{"code":"cheaper","detail":"","tables":["raw.orders"],"key":["customer_id"],"sizes":{"inputs":9000,"table":800,"changed":70,"scanned":9800}}');
INSERT INTO "vde_fills" VALUES('8caa7a17f5db44bd817cd2abb0263e3a',1704240000000000,1704326400000000,'p1',5,7,1704067200000000,NULL,NULL,NULL,NULL,NULL,NULL,'[[["db","late"],{"ranges":[{"start":"2024-01-02T00:00:00Z","end":"2024-01-03T00:00:00Z"}]}]]',NULL,NULL,NULL);
CREATE TABLE vde_heads (
	table_id VARCHAR(64) NOT NULL, 
	metadata_location VARCHAR(1000) NOT NULL, 
	iceberg_snapshot_id BIGINT, 
	schema_id INTEGER NOT NULL, 
	row_count BIGINT, 
	PRIMARY KEY (table_id)
);
INSERT INTO "vde_heads" VALUES('8caa7a17f5db44bd817cd2abb0263e3a','file:///w/vde_physical/orders/metadata/00002-a.metadata.json',8514379652188123401,0,20);
CREATE TABLE vde_intervals (
	table_id VARCHAR(64) NOT NULL, 
	start_at BIGINT NOT NULL, 
	end_at BIGINT NOT NULL, 
	PRIMARY KEY (table_id, start_at)
);
INSERT INTO "vde_intervals" VALUES('8caa7a17f5db44bd817cd2abb0263e3a',1704067200000000,1704326400000000);
CREATE TABLE vde_journal (
	seq INTEGER NOT NULL, 
	plan_id VARCHAR(64) NOT NULL, 
	step VARCHAR(255) NOT NULL, 
	detail TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "vde_journal" VALUES(1,'p1','fill','{}',1704067200000000);
CREATE TABLE vde_leases (
	resource VARCHAR(255) NOT NULL, 
	owner VARCHAR(255), 
	token BIGINT NOT NULL, 
	acquired_at BIGINT NOT NULL, 
	heartbeat_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, db_user VARCHAR(255), process VARCHAR(255), 
	PRIMARY KEY (resource)
);
INSERT INTO "vde_leases" VALUES('environment/prod','anna',1,1704067200000000,1704067200000000,1704067260000000,NULL,NULL);
CREATE TABLE vde_log (
	number BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	db_user VARCHAR(255), 
	who VARCHAR(255) NOT NULL, 
	act VARCHAR(16) NOT NULL, 
	environment VARCHAR(64), 
	version INTEGER, 
	detail TEXT NOT NULL, 
	previous VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "vde_log" VALUES(1,1704067200000000,NULL,'anna','publish','prod',2,'{"plan":"p2"}','0000000000000000000000000000000000000000000000000000000000000000','e53effb3551d09deee235b5834e0fd952c60fbcff0f33a64c8dcae315ca55f98');
CREATE TABLE vde_mirrored_views (
	catalog_name VARCHAR(255) NOT NULL, 
	namespace VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	environment VARCHAR(64) NOT NULL, 
	wanted_hash VARCHAR(64), 
	definition TEXT, 
	behind_since BIGINT, 
	writer VARCHAR(64), 
	watched_until BIGINT, 
	failure VARCHAR(1000), 
	PRIMARY KEY (catalog_name, namespace, name)
);
CREATE TABLE vde_namespaces (
	catalog_name VARCHAR(255) NOT NULL, 
	namespace VARCHAR(255) NOT NULL, 
	environment VARCHAR(64) NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (catalog_name, namespace)
);
CREATE TABLE vde_news (
	seq INTEGER NOT NULL, 
	number BIGINT, 
	kind VARCHAR(16) NOT NULL, 
	subject TEXT NOT NULL, 
	origin VARCHAR(255) NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "vde_news" VALUES(1,1,'store','5f3ab0c1d2e34f5a8b6c7d8e9f001122','',0);
INSERT INTO "vde_news" VALUES(2,NULL,'published','{"environment": "prod", "version": 2, "plan": null}','',1704067200000000);
CREATE TABLE vde_outdated (
	table_id VARCHAR(64) NOT NULL, 
	start_at BIGINT NOT NULL, 
	end_at BIGINT NOT NULL, 
	since BIGINT NOT NULL, 
	PRIMARY KEY (table_id, start_at, end_at)
);
CREATE TABLE vde_parts (
	table_id VARCHAR(64) NOT NULL, 
	start_at BIGINT NOT NULL, 
	end_at BIGINT NOT NULL, 
	unit VARCHAR(16) NOT NULL, 
	since BIGINT NOT NULL, 
	PRIMARY KEY (table_id, start_at, end_at, unit)
);
INSERT INTO "vde_parts" VALUES('8caa7a17f5db44bd817cd2abb0263e3a',1704326400000000,1704362400000000,'DAY',1704362400000000);
CREATE TABLE vde_pending_intervals (
	plan_id VARCHAR(64) NOT NULL, 
	table_id VARCHAR(64) NOT NULL, 
	start_at BIGINT NOT NULL, 
	end_at BIGINT NOT NULL, 
	branch VARCHAR(255) NOT NULL, 
	iceberg_snapshot_id BIGINT, 
	row_count BIGINT, 
	recorded_at BIGINT NOT NULL, byte_count BIGINT, seconds FLOAT, inputs TEXT, output TEXT, skipped TEXT, lacks TEXT, task_seconds FLOAT, bytes_read BIGINT, refresh TEXT, 
	PRIMARY KEY (plan_id, table_id, start_at, end_at)
);
CREATE TABLE vde_pins (
	environment VARCHAR(64) NOT NULL, 
	table_id VARCHAR(64) NOT NULL, 
	valid_from INTEGER NOT NULL, 
	valid_to INTEGER, 
	iceberg_snapshot_id BIGINT, 
	schema_id INTEGER NOT NULL, 
	row_count BIGINT, 
	rows_added BIGINT, 
	rows_removed BIGINT, filled TEXT, 
	PRIMARY KEY (environment, table_id, valid_from)
);
INSERT INTO "vde_pins" VALUES('prod','8caa7a17f5db44bd817cd2abb0263e3a',1,2,3051729675574597004,0,10,NULL,NULL,NULL);
INSERT INTO "vde_pins" VALUES('prod','8caa7a17f5db44bd817cd2abb0263e3a',2,NULL,8514379652188123401,0,20,10,0,'1704067200000000-1704326400000000');
CREATE TABLE vde_plans (
	plan_id VARCHAR(64) NOT NULL, 
	environment VARCHAR(64) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	base_version INTEGER NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	created_at BIGINT NOT NULL, 
	started_at BIGINT, 
	finished_at BIGINT, 
	message TEXT, 
	payload BLOB NOT NULL, 
	PRIMARY KEY (plan_id)
);
CREATE TABLE vde_project (
	number INTEGER NOT NULL, 
	project_id VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	named BOOLEAN NOT NULL, 
	since BIGINT NOT NULL, warehouse VARCHAR(1000), 
	PRIMARY KEY (number)
);
INSERT INTO "vde_project" VALUES(1,'5f0c3a9d1e7b2468','shop',0,1704067200000000,'file:///warehouse');
CREATE TABLE vde_publications (
	publication_id VARCHAR(64) NOT NULL, 
	environment VARCHAR(64) NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	version INTEGER, 
	plan_id VARCHAR(64), 
	published_by VARCHAR(255) NOT NULL, 
	files BLOB NOT NULL, 
	started_at BIGINT NOT NULL, 
	decided_at BIGINT, 
	cleaned_at BIGINT, 
	PRIMARY KEY (publication_id)
);
CREATE TABLE vde_snapshots (
	snapshot_id VARCHAR(64) NOT NULL, 
	model_namespace VARCHAR(255) NOT NULL, 
	model_name VARCHAR(255) NOT NULL, 
	payload BLOB NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (snapshot_id)
);
CREATE TABLE vde_tables (
	table_id VARCHAR(64) NOT NULL, 
	namespace VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	fill_version VARCHAR(64) NOT NULL, 
	columns_version VARCHAR(64) NOT NULL, 
	columns TEXT NOT NULL, 
	snapshot_id VARCHAR(64) NOT NULL, 
	created BOOLEAN NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	registered_at BIGINT NOT NULL, 
	tombstoned_at BIGINT, 
	location VARCHAR(1000), 
	PRIMARY KEY (table_id)
);
INSERT INTO "vde_tables" VALUES('8caa7a17f5db44bd817cd2abb0263e3a','vde_physical','orders_8caa7a17','fill-orders-1','088623641bde99529fe98db565e7aab5','{"columns":[["c0","va","INT",[],false],["c1","vt","DATE",[],false]]}','orders@1',1,'live',1704067200000000,NULL,NULL);
CREATE TABLE vde_tokens (
	token_id VARCHAR(16) NOT NULL, 
	environment VARCHAR(64) NOT NULL, 
	secret_hash VARCHAR(64) NOT NULL, 
	row_filter VARCHAR(2000), 
	created_at BIGINT NOT NULL, 
	created_by VARCHAR(255) NOT NULL, 
	expires_at BIGINT, 
	revoked_at BIGINT, 
	PRIMARY KEY (token_id)
);
INSERT INTO "vde_tokens" VALUES('84fc78904013','prod','1081cd2df01bc3ae66a7d1ad0ceef707d4dc07fc2988e6bee71f0771af4fb3b4','tenant = 7',1704067200000000,'me',NULL,NULL);
CREATE TABLE vde_view_types (
	snapshot_id VARCHAR(64) NOT NULL, 
	columns TEXT NOT NULL, db_user VARCHAR(255), 
	PRIMARY KEY (snapshot_id)
);
CREATE TABLE vde_views (
	catalog_name VARCHAR(255) NOT NULL, 
	namespace VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	environment VARCHAR(64) NOT NULL, 
	definition_hash VARCHAR(64) NOT NULL, 
	metadata_location VARCHAR(1000) NOT NULL, 
	publication_id VARCHAR(64) NOT NULL, 
	PRIMARY KEY (catalog_name, namespace, name)
);
CREATE INDEX ix_vde_audit_results_plan_id ON vde_audit_results (plan_id);
CREATE INDEX ix_vde_audit_results_table_id ON vde_audit_results (table_id);
CREATE INDEX vde_entries_valid ON vde_entries (environment, valid_to);
CREATE INDEX ix_vde_journal_plan_id ON vde_journal (plan_id);
CREATE INDEX vde_plans_recent ON vde_plans (environment, created_at);
CREATE INDEX vde_publications_cleaned ON vde_publications (cleaned_at);
CREATE UNIQUE INDEX vde_tables_content ON vde_tables (fill_version, columns_version) WHERE status = 'live';
CREATE UNIQUE INDEX vde_tables_place ON vde_tables (namespace, name);
CREATE INDEX vde_views_environment ON vde_views (environment);
CREATE INDEX vde_entries_shown ON vde_entries (table_id, environment) WHERE valid_to IS NULL;
CREATE UNIQUE INDEX vde_news_number ON vde_news (number);
CREATE INDEX vde_fills_latest ON vde_fills (table_id, recorded_at);
CREATE INDEX vde_news_origin ON vde_news (origin, number);
CREATE UNIQUE INDEX vde_pins_open ON vde_pins (environment, table_id) WHERE valid_to IS NULL;
CREATE INDEX vde_log_environment ON vde_log (environment, number);
CREATE UNIQUE INDEX vde_log_previous ON vde_log (previous);
CREATE TRIGGER vde_log_update BEFORE UPDATE ON vde_log BEGIN SELECT RAISE(ABORT, 'the log is only added to'); END;
CREATE TRIGGER vde_log_delete BEFORE DELETE ON vde_log BEGIN SELECT RAISE(ABORT, 'the log is only added to'); END;
COMMIT;
