-- Leases what is due: a replica that dies in the middle loses the lease, and another one tries.
WITH due AS (
    SELECT id FROM alert_deliveries WHERE state = 'pending' AND next_attempt <= now() ORDER BY next_attempt LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE alert_deliveries AS d
SET attempts = d.attempts + 1, next_attempt = now() + make_interval(secs => $2)
FROM due LEFT JOIN LATERAL (
    SELECT a.webhook_url, a.webhook_secret FROM alerts a JOIN alert_deliveries o ON o.domain = a.domain AND o.alert = a.name WHERE o.id = due.id
) AS a ON true
WHERE d.id = due.id
RETURNING d.id, d.domain, d.alert, d.body, d.attempts, a.webhook_url AS url, a.webhook_secret AS secret
