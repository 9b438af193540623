-- Written by Sluice for dbt: write it again when a table or a cluster comes.
-- Fails with the hours of [sluice_from, sluice_to) that a table does not have whole. `dbt build` asks it before the
-- models that read the source. Both are variables of the run; without them nothing is asked.
{% test sluice_hour_complete(model, hours, seconds) %}
{% if var('sluice_from', none) %}
SELECT arrayJoin(range(
    toUnixTimestamp(parseDateTimeBestEffort('{{ var("sluice_from") }}', 'UTC')),
    toUnixTimestamp(parseDateTimeBestEffort('{{ var("sluice_to") }}', 'UTC')),
    {{ seconds }}
)) AS asked
WHERE asked NOT IN ({{ hours }})
{% else %}
SELECT 1 WHERE 0
{% endif %}
{% endtest %}
