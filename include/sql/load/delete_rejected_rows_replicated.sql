DELETE FROM {rejected}
WHERE target = {target_name} AND (slice, cluster) IN ({units})
    AND notEmpty({marker}) AND (SELECT count() FROM {fence}) > 0
