INSERT INTO {fence} (slice, cluster, landed, manifest, types, replaces) FORMAT JSONEachRow
