-- DEFAULTs that only the server behind the INSERT can evaluate, and only of rows that lack a value.
ALTER TABLE {staging} {changes}
