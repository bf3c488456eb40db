-- Takes the name for this token and stream, unless it is another token's. No row: it is; or there are too many agents.
INSERT INTO agents AS a (name, token_id, boot, build, time_zones, stream, connected_to, connected_since, last_seen)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, now()
WHERE EXISTS (SELECT FROM agents WHERE name = $1) OR (SELECT count(*) FROM agents) < $9
ON CONFLICT (name) DO UPDATE
SET token_id = excluded.token_id, boot = excluded.boot, build = excluded.build, time_zones = excluded.time_zones, stream = excluded.stream, connected_to = excluded.connected_to,
    connected_since = excluded.connected_since, last_seen = now(), last_error = '', warnings = '{}', shards = '[]', decisions_per_second = 0
WHERE a.token_id IS NULL OR a.token_id = excluded.token_id
RETURNING name
