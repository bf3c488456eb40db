-- The most denied subjects of a range. TABLE is subjects_1m or subjects_1h.
SELECT subject, (array_agg(tier ORDER BY last_second DESC))[1] AS tier, array_agg(DISTINCT rule ORDER BY rule) AS rules,
       sum(denied)::bigint AS denied, sum(allowed)::bigint AS allowed, sum(error)::bigint AS error,
       min(first_second) AS first_second, max(last_second) AS last_second
FROM TABLE
WHERE domain = $1 AND bucket >= $2 AND bucket < $3 AND ($5::text IS NULL OR rule = $5) AND denied > 0
GROUP BY subject
ORDER BY denied DESC, subject
LIMIT $4
