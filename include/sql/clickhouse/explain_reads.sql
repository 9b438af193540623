-- How the server reads whole tables for this user: with what it adds to hide rows or values. Nothing is read.
EXPLAIN PLAN json = 1, actions = 1, optimize = 0
{reads}
