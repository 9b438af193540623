-- One unit of a rollup: what its SELECT gives of the unit's rows in the source. A misfit stops it, and not as a
-- condition: the server may ask one of rows that the SELECT's own conditions leave out.
INSERT INTO {staging} ({columns}, _slice, _cluster)
SELECT {values}, {slice}, if(throwIf({misfit}, {says}) = 0, {cluster}, '')
FROM
(
    SELECT {named}
    FROM (SELECT {given} FROM (
{select}
) AS sluice_given)
)
{settings}
