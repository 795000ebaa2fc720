BEGIN TRANSACTION;
CREATE TABLE iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL,namespace VARCHAR(255) NOT NULL,property_key VARCHAR(255),property_value VARCHAR(1000),PRIMARY KEY (catalog_name, namespace, property_key));
CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL,table_namespace VARCHAR(255) NOT NULL,table_name VARCHAR(255) NOT NULL,metadata_location VARCHAR(1000),previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE vde_alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT vde_alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "vde_alembic_version" VALUES('0015');
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
	dropped BOOLEAN NOT NULL, suffix VARCHAR(16), mode VARCHAR(16), frozen VARCHAR(255), 
	PRIMARY KEY (environment, version), 
	UNIQUE (publication_id)
);
INSERT INTO "vde_environment_versions" VALUES('prod',1,'f26855561e3945d684f01c8e60bd5fe8',NULL,1704067200000000,'anna',NULL,'',1,0,0,0,NULL,NULL,NULL);
INSERT INTO "vde_environment_versions" VALUES('prod',2,'daa8fddfbed34667b18a65b693640b51',NULL,1704067200000000,'anna',NULL,'',0,1,0,0,NULL,NULL,NULL);
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
	recorded_at BIGINT NOT NULL, byte_count BIGINT, seconds FLOAT, inputs TEXT, output TEXT, skipped TEXT, undone BOOLEAN, lacks TEXT, 
	PRIMARY KEY (table_id, start_at, end_at, plan_id)
);
INSERT INTO "vde_fills" VALUES('8caa7a17f5db44bd817cd2abb0263e3a',1704067200000000,1704153600000000,'p1',5,7,1704067200000000,NULL,NULL,'{"db.raw":[5,6,[[["a"],"d1"]],["a","b"],1,"f"]}','[[["a"],null],[["2024-01-01T00:00:00Z","2024-01-02T00:00:00Z",7,"d1","d2"]],false,[1],[5]]','["2024-01-01T00:00:00Z",1.5,7,8]',NULL,'[["db","late",["2024-01-02T00:00:00Z","2024-01-03T00:00:00Z"]]]');
INSERT INTO "vde_fills" VALUES('8caa7a17f5db44bd817cd2abb0263e3a',1704153600000000,1704240000000000,'p1',5,7,1704067200000000,NULL,NULL,NULL,NULL,NULL,NULL,'[["db","late",["2024-01-02T00:00:00Z","2024-01-03T00:00:00Z"]]]');
INSERT INTO "vde_fills" VALUES('8caa7a17f5db44bd817cd2abb0263e3a',1704240000000000,1704326400000000,'p1',5,7,1704067200000000,NULL,NULL,NULL,NULL,NULL,NULL,'[["db","late",["2024-01-02T00:00:00Z","2024-01-03T00:00:00Z"]]]');
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
	expires_at BIGINT NOT NULL, 
	PRIMARY KEY (resource)
);
INSERT INTO "vde_leases" VALUES('environment/prod','anna',1,1704067200000000,1704067200000000,1704067260000000);
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
CREATE TABLE vde_pending_intervals (
	plan_id VARCHAR(64) NOT NULL, 
	table_id VARCHAR(64) NOT NULL, 
	start_at BIGINT NOT NULL, 
	end_at BIGINT NOT NULL, 
	branch VARCHAR(255) NOT NULL, 
	iceberg_snapshot_id BIGINT, 
	row_count BIGINT, 
	recorded_at BIGINT NOT NULL, byte_count BIGINT, seconds FLOAT, inputs TEXT, output TEXT, skipped TEXT, lacks TEXT, 
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
	since BIGINT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "vde_project" VALUES(1,'5f0c3a9d1e7b2468','shop',0,1704067200000000);
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
INSERT INTO "vde_tables" VALUES('8caa7a17f5db44bd817cd2abb0263e3a','vde_physical','orders_8caa7a17','fill-orders-1','088623641bde99529fe98db565e7aab5','[["c0", "va", "INT"], ["c1", "vt", "DATE"]]','orders@1',1,'live',1704067200000000,NULL,NULL);
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
	columns TEXT NOT NULL, 
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
INSERT INTO "vde_snapshots" VALUES('db.orders@1','db','orders',X'789c6d514f6fc22014ff2acdbb6ccbd055b7534f3ad32c26ea417b593a43b0d049a4a040679cf1bbef4175d96109a10fcafbfd7be519346b046425f00d1030960beb604d60273587ec0c5e36825646b58d860cbcc347f1aa36b6611e32dd2a454019b3dbb06a07d980c086f96a4b9dfc16b7df1d074c1793653ecf17c578465fdf69319de774395ebce570091015f3d2e8a0a5315c28f7c4faeea0803c93010a3ab4c29e106495cff249910c92f12a61241939cfaca7dc857394f76999d40e614a60412ddac1f6ce02e5c25556ee03910bf618224a7fe7928f364deb4a878fa82be40f9ab8d80bcd1d8daa4ab0ecf82723048ddc88304c872fbd7480ab48d32caec7b8e373d672e93b39da781a020182874e50107ccf1e22dacd19106f5bb15e5f48984abfe31be1352a3047d7c3aa13fe75f5879547b931ebe87a1de06aa954efb73f7441237c6851ec645a0fe49ad07451e0de816d4582edc814a2ec8687d8b142ccff3208b85cd452cb383d5222f90fa3b4bb11',1704067200000000);
INSERT INTO "vde_snapshots" VALUES('db.names@1','db','names',X'789c6d914d4fc3300c86ff4ae50b20d2d10e4e3d0da12121555c564ea5aa429342449a6cf9609ad0fe3b76bade90a2d44ef33e7eedb4bf60f824a16a417c004b89878ec1b73202aae52f3cbfd5359c19683bf0a0ac21c16485d4fe8eaffc4103bb6725ca0e51ba13dedf6debed539395d9e32ee32cdbf8c05de885a73c782cf4e9b8321e312d704cf1ac43f960759c4c2fa41f9cda53214f26381255b8f2d97b2c8a7130f491e380f5c993907b6984ef93ab161c3f22d03a21dd0c4db591b02ed60f7951e26a8aa24aeb36ed789d47a1c26cc7d8d09ba8b1254c664364f89adf24dad219b0e0a2ecba33a3d1add2e036788a06ecd1e718cdbe7f2eed6114d02d91596aba23daa8b4ce173989609281149a9f6c0cc02ef379796d709f595f32433516a241261ea15384c8ff26405c214765547a3bd662ed3f8b0f9b3e',1704067200000000);
INSERT INTO "vde_snapshots" VALUES('db.rich@1','db','rich',X'789c6d92416fdb300c85ff8ac11d7a98d2dade2ef3a959610c01da1cda5c06cf30144b6e84d85226c9c93263ff7d24dd341830c050a498e4fbdeb3aa09ac1c341415a82d08f0a6dd412d606fac8262826806ddb4ae1f070b05c48025fc57e7fc20231476ec7b01bd73fbad6cf7506402b632b6bb2698dffaf27a5680d5fae1b97c2ad79be563f3f57bb3593d95cdf372fdad843f34a295d1384b248353ba0f77c4727b3883f8243244fa396a7fc6312fe563f9b049b264f9924891dc87287d6c54a03303be7a696cc04115483c6ea1c6eed943a37468bd399052207f12079a7813921f639a76ada51fddb50840508773dccd4812418aee430e62e23db6fdc28a09d70232de515d56d36e8022c76e35b67b0c15c58379b5b29f91bc960a3de16ee7468fbc5526f29a100369bcbd9ef834ab5cf1afa656eb0dae32b1e3b0d51e352af429386e5aa845e983b62a346c0075e5093b9c571a45598e7243853ccd3f2fd20c9f4d9a16fc7ce495044665e2ac6a5d6c6834a35f70b082675dbe09880e7d6a2ae1ebf42e4780ee64b1f95a8d61463fea1a33a3f25bfadef7380259dd292c32ce1a018f649828e018316936c931706a9de9fbc55b37f5c0a02335f4f2ecc608e29fc0e6513b9d488e8caecb7c4571f225b8ff65457395ee8c357c47c905767fa12232c5c030b3bc2b1e19b0aeff029bbb0bd5',1704067200000000);
INSERT INTO "vde_plans" VALUES('rich','prod','restatement',0,'planned',1704067200000000,NULL,NULL,NULL,X'785eed56db6adc3010fd15334f2d38c1bb49485908b4a5a1e4a52fdd97c604235bda5d115932f265b384bef603fa89fd92ce48be68c32ea5690ba5d4185b1a5de67e66d214ac2c361043650dc79f1575c31a510add409cc4304fe6e727c90cdf65922cdc7b0bb16e953ab676e8c86942cfe52ddcc5690a3c4746c672616b1cf0fcd48f5fcf204ea1c1afdfe1462ba9d4895f3fa1f5148a04c91df342e07d50d0be0ec57584bbe16a775d7a4481897c16e885871bdb0afcf5426a560a94d1a9eb3e8f506c985e0b58a0a54ad309b25981065b1bbb8385b78b15ac36ba86458ac2545674d2b438234ddd852419e4ad541ca92ba66a1183d48db01d8efd29d672d94cabbd57c6dd8aed4cdb8cd31c39debb939f47d1f3b6defd9dd64523d6f7b2aa58aed08e64f0d811488123ee9a9d5ec497f12b328cdab21d191355e675a4cdf6c54b72c1e095d270b9924fdc02ce4052af5d800fcea1d842a347fe2c39f221faf6e56bb4c3280ddd968b95b12270991739f45820f73ccc93499df3fd301b1decef1afdeba7837bfd6cf46e0a1aa5b8f9b0c4efdb9bf76ee0b6a43e621939fcdd9be5751fb13eb4c684d3a403e60de494867d8e6d0ddce143221498667566b4c240f69c31b08b8da8b3b61a285267956205fa6db816b3d4670d3122f9b6920bedccb92729b17c200138a7c531a588f74190417aeef923b3d93c3ebb7020826465d05f366bb5c41440853fc114f68df5ceffcda8d20bdf910693ddc1288ee6fb75c4c194703821b69403664580c645d6d3b259f50c2843b10a53566d2378b6b2a67437371b6129bc4bf98066726e46dbfd4fc809717f2621ff9db4591b428767d7b9b1183e41ce3f58e7a893d86f250804e9fd518f418d455fe283ce23acce8455da44be3e60ba3c0e004d5034707505d6f13adc234de4b024d0d5e3feb0f7085070bf56387c691b8e4dc621f6c04547194ddd5228cb913a74b8dd81b1e9732ce0e3f53262d15544d8ee6739cee61eeb0843b2f0804f196c202b533345388396a3be0998d60cb029f90ea8f017ab');
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
COMMIT;
