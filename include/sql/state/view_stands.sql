-- Whether the view is the one that `select` makes, however either is written; no row where there is none.
SELECT formatQuerySingleLine(as_select) = formatQuerySingleLine({select:String}), comment
FROM system.tables
WHERE database = {database:String} AND name = {name:String} AND engine = 'View'
