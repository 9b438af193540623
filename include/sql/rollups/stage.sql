-- One unit of a rollup: what its SELECT gives of the unit's rows in the source.
INSERT INTO {staging} ({columns}, _slice, _cluster)
SELECT {values}, {slice}, {cluster}
FROM (
{select}
) AS {given}
{settings}
