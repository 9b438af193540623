KILL QUERY {on_cluster} WHERE startsWith(query_id, {prefix:String}) SYNC
