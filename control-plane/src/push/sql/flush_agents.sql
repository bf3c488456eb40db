-- What agents said of late, in one statement. Times are the database's, as readers' are: replicas' clocks differ. An agent whose stream is another one by now is left alone, and its stream is not among those returned.
WITH said AS (
    SELECT * FROM jsonb_to_recordset($1) AS s (
        name text, stream uuid, silent_seconds double precision, connected boolean, last_error text, warnings jsonb, shards json,
        decisions_per_second double precision, stale_seconds bigint, dropped_events bigint)
), locked AS (
    -- In one order, so that two replicas never wait for each other.
    SELECT a.name, a.stream FROM agents a JOIN said s ON s.name = a.name AND s.stream = a.stream ORDER BY a.name FOR UPDATE OF a
)
UPDATE agents AS a
SET last_seen = greatest(a.last_seen, now() - make_interval(secs => s.silent_seconds)), last_error = s.last_error, shards = s.shards,
    warnings = ARRAY(SELECT jsonb_array_elements_text(s.warnings)), decisions_per_second = s.decisions_per_second,
    stale_seconds = s.stale_seconds, dropped_events = s.dropped_events,
    stream = CASE WHEN s.connected THEN a.stream END, connected_to = CASE WHEN s.connected THEN a.connected_to END,
    connected_since = CASE WHEN s.connected THEN a.connected_since END
FROM said s JOIN locked l ON l.name = s.name AND l.stream = s.stream
WHERE a.name = s.name AND a.stream = s.stream
RETURNING s.stream
