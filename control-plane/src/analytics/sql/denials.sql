-- The subject is looked for as a plain text (strpos), not as a pattern: '%' and '\' mean themselves. By the
-- collation "C", whatever the database's: only A to Z have a lower case.
SELECT id, time_ms, agent, rule, tier, subject, outcome, reason, method, host, path, client_ip, limit_units, window_ms, retry_after_ms, cost,
       shard, counter_key, weight
FROM denials
WHERE domain = $1 AND second >= $2 AND second < $3 AND time_ms >= $2 * 1000 AND time_ms < $3 * 1000
  AND ($4::text IS NULL OR rule = $4) AND ($5::text IS NULL OR strpos(lower(subject), lower($5 COLLATE "C")) > 0)
  AND (time_ms, id) < ($6, $7)
ORDER BY time_ms DESC, id DESC
LIMIT $8
