-- What agents have of each set, and what they refused.
UPDATE agent_sets AS s
SET revision = n.revision, hash = decode(n.hash, 'hex'), refused_revision = n.refused_revision, refused_hash = decode(n.refused_hash, 'hex'),
    refused_build = n.refused_build, errors = ARRAY(SELECT jsonb_array_elements_text(n.errors)), temporary = n.temporary,
    updated_at = CASE WHEN (s.revision, s.hash, s.refused_hash) IS DISTINCT FROM (n.revision, decode(n.hash, 'hex'), decode(n.refused_hash, 'hex'))
                 THEN now() ELSE s.updated_at END
FROM jsonb_to_recordset($1) AS n (
    agent text, domain text, revision bigint, hash text, refused_revision bigint, refused_hash text, refused_build text, errors jsonb,
    temporary boolean)
WHERE s.agent = n.agent AND s.domain = n.domain
