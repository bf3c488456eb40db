-- Agents by name. $1: seconds after which a silent agent is not connected, whatever its row says; $2 to $4: filters; $5: after this name.
SELECT a.name, a.stream IS NOT NULL AND a.last_seen > now() - make_interval(secs => $1) AS connected, a.build, a.time_zones, a.boot, t.name AS token,
       a.last_seen, a.connected_since, a.last_error, a.warnings, a.shards, a.decisions_per_second, a.stale_seconds, a.dropped_events
FROM agents a LEFT JOIN tokens t ON t.id = a.token_id
WHERE a.name > $5 AND ($4::text IS NULL OR a.name = $4)
  AND ($2::text[] IS NULL OR EXISTS (SELECT FROM agent_sets s WHERE s.agent = a.name AND s.domain = ANY ($2)))
  AND ($3::text IS NULL OR EXISTS (SELECT FROM agent_sets s WHERE s.agent = a.name AND s.domain = $3))
ORDER BY a.name
LIMIT $6
