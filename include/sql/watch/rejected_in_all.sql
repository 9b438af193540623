-- How many rejected rows each of these tables has.
SELECT toString(target) AS name, count() FROM sluice.rejected WHERE target IN {targets:Array(String)} GROUP BY name
