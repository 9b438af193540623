CREATE OR REPLACE VIEW {view} AS
{select}
COMMENT {comment}
