CHECK GRANT {rights} ON {place}
