-- Written by Sluice for dbt: write it again when a table or a cluster comes.
-- Fails with the hours of [sluice_from, sluice_to) that a table does not have whole. `dbt build` asks it before the
-- models that read the source. Both are variables of the run; without them nothing is asked.
{% test sluice_hour_complete(model, table, clusters, begins, seconds) %}
{% if var('sluice_from', none) %}
SELECT hour
FROM (
    SELECT arrayJoin(range(
        toUnixTimestamp(parseDateTimeBestEffort('{{ var("sluice_from") }}', 'UTC')),
        toUnixTimestamp(parseDateTimeBestEffort('{{ var("sluice_to") }}', 'UTC')),
        {{ seconds }}
    )) AS hour
)
WHERE hour NOT IN (
    SELECT toUnixTimestamp(slice)
    FROM (
        SELECT slice, cluster, argMax(state, (generation, attempt, state)) AS newest
        FROM sluice.ledger
        WHERE target = '{{ table }}'
            AND table_uuid IN (SELECT uuid FROM system.tables WHERE concat(database, '.', name) = '{{ table }}')
        GROUP BY slice, cluster
    )
    WHERE newest = 'committed' GROUP BY slice
    HAVING arrayAll(
        (name, begin) -> begin > toUnixTimestamp(slice) OR has(groupArray(cluster), name),
        ['{{ clusters | join("', '") }}'], [{{ begins | join(', ') }}]
    )
)
{% else %}
SELECT 1 WHERE 0
{% endif %}
{% endtest %}
