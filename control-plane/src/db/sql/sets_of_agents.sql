-- What the agents $1 run, beside what is newest.
SELECT s.agent, s.domain, s.revision, s.hash, n.revision AS latest, (s.hash = n.hash) IS TRUE AS is_latest,
       (s.refused_hash = n.hash) IS TRUE AS refused_latest, s.errors
FROM agent_sets s LEFT JOIN sets n ON n.domain = s.domain WHERE s.agent = ANY ($1) ORDER BY s.agent, s.domain
