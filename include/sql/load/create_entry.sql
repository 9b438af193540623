-- Rows pass through it with all their columns, DEFAULTs included, so that an expression can place them.
CREATE TABLE {entry} ({definitions}) ENGINE = Null
