-- What the agent says it has; 0 and NULL: nothing yet.
INSERT INTO agent_sets AS s (agent, domain, revision, hash)
SELECT $1, domain, revision, hash FROM unnest($2::text[], $3::bigint[], $4::bytea[]) AS h (domain, revision, hash) ORDER BY domain
ON CONFLICT (agent, domain) DO UPDATE SET revision = excluded.revision, hash = excluded.hash, updated_at = now()
