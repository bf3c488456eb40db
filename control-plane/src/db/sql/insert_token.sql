INSERT INTO tokens (id, name, kind, role, domains, hash, created_by, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING id, name, kind, role, domains, created_at, expires_at, last_used_at, hash
