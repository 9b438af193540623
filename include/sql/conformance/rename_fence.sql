RENAME TABLE {fence} TO {rows}
