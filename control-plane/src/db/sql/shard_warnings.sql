-- What connected agents say is amiss with the shards. $1: seconds after which a silent agent is not connected.
SELECT s ->> 'shard' AS shard, w ->> 'code' AS code, min(w ->> 'text') AS text, count(DISTINCT a.name) AS agents
FROM agents a, json_array_elements(a.shards) AS s, json_array_elements(coalesce(s -> 'warnings', '[]'::json)) AS w
WHERE a.stream IS NOT NULL AND a.last_seen > now() - make_interval(secs => $1) AND ($2::text IS NULL OR s ->> 'shard' = $2)
GROUP BY 1, 2
ORDER BY 1, 2
