-- A session of $6 seconds that outlives neither the token $5 behind it nor $7.
INSERT INTO sessions (hash, name, role, domains, token_id, expires_at)
SELECT $1, $2, $3, $4, $5, least(now() + make_interval(secs => $6), (SELECT expires_at FROM tokens WHERE id = $5), $7)
