-- Rows of the lake's files whose every value fits go to the staging table. Two threads sort and write them, and push
-- them through views: one alone would keep those that parse waiting. Blocks are small enough for a core's own cache:
-- every expression goes through them once more.
INSERT INTO {staging} ({columns})
SETTINGS max_insert_threads = 2, parallel_view_processing = 1, max_block_size = {block}
SELECT {values}
FROM
(
    {rows}
)
WHERE NOT ({unfit})
