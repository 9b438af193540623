-- The traffic of the last 24 hours that are covered, and of the 24 after them: expected and seen.
-- Expected is the mean of the same hour of day: of the same weekday in the last four weeks where at least three
-- of those four hours are covered, else of the last seven days. A mean, because means of parts add up to that of
-- their sum: summed up by country, the view still says what is expected of the country. A key that an hour does
-- not have counts there as 0. An hour is covered when its slices are committed for every cluster that had begun by
-- then; late rows change it later. What was seen of an hour that is not covered is unknown: it has not landed, or is
-- still to come. An hour may be of another century, which a DateTime would take for one of this. Beside the keys
-- every other name begins with _, which no key does: an alias would hide a key of its name.
CREATE OR REPLACE VIEW {view} AS
WITH
    covered AS
    (
        SELECT toStartOfHour(slice) + toIntervalHour(arrayJoin(range({hours_of_slice}))) AS at
        FROM
        (
            SELECT slice, arrayFilter(one -> one.2 <= toUnixTimestamp(slice), {clusters}) AS awaited
            FROM
            (
                SELECT slice, cluster
                FROM sluice.ledger
                WHERE target = {target_name} AND table_uuid = {table_uuid}
                GROUP BY slice, cluster
                HAVING argMax(state, (generation, attempt, state)) = 'committed'
            )
            GROUP BY slice
            HAVING notEmpty(awaited) AND hasAll(groupArray(toString(cluster)), arrayMap(one -> one.1, awaited))
        )
        GROUP BY at
        HAVING count() >= {slices_of_hour}
    ),
    shown AS
    (
        SELECT latest + toIntervalHour(arrayJoin(range(48)) - 23) AS at, at <= latest AS over
        FROM (SELECT max(at) AS latest FROM covered HAVING count() > 0)
    ),
    chosen AS
    (
        SELECT
            at,
            groupArrayIf(earlier, back % 7 = 0) AS weekly,
            groupArrayIf(earlier, back <= 7) AS daily,
            if(length(weekly) >= 3, weekly, daily) AS days
        FROM
        (
            SELECT at, arrayJoin([1, 2, 3, 4, 5, 6, 7, 14, 21, 28]) AS back, at - toIntervalDay(back) AS earlier
            FROM shown
        )
        WHERE earlier IN (SELECT at FROM covered)
        GROUP BY at
    ),
    counted AS
    (
        SELECT
            toStartOfHour(
                toDateTime(
                    least(greatest(hour, toDateTime64(0, 0, 'UTC')), toDateTime64(4294967295, 0, 'UTC')), 'UTC'
                )
            ) AS _at,
            {keys},
            sum(count) AS _rows
        FROM {committed}
        WHERE hour >= (SELECT min(at) - toIntervalDay(28) FROM shown)
        GROUP BY _at, {keys}
    )
SELECT
    _hour AS hour,
    {keys},
    if(_hour IN (SELECT at FROM chosen WHERE notEmpty(days)), sum(_awaited), NULL) AS expected,
    if(_hour IN (SELECT at FROM covered), sum(_there), NULL) AS seen,
    expected - seen AS difference
FROM
(
    SELECT _hour, {keys}, _rows / _among AS _awaited, 0 AS _there
    FROM counted
    INNER JOIN (SELECT at AS _hour, arrayJoin(days) AS _day, length(days) AS _among FROM chosen) AS used
        ON _at = _day
    UNION ALL
    SELECT _at AS _hour, {keys}, 0 AS _awaited, _rows AS _there
    FROM counted
    WHERE _at IN (SELECT at FROM shown WHERE over)
)
GROUP BY _hour, {keys}
COMMENT {comment}
