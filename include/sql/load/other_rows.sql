-- The condition on rows of the lake that no row is staged of their records.
{id} NOT IN (SELECT {id} FROM {staging})
