-- Rows that the table has of records that the lake still has go to the staging table as they are.
INSERT INTO {staging} ({columns})
SETTINGS insert_allow_materialized_columns = 1{consistent}
SELECT {columns}
FROM {target}
WHERE (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
  AND {id} IN (SELECT {id} FROM ({source}) WHERE {routed})
