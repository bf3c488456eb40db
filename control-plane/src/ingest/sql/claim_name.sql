-- Whether the agent $1 is the token $2's, taking a name that is nobody's while there are fewer than $3. No row: there are too many.
WITH taken AS (
    INSERT INTO agents (name, token_id)
    SELECT $1, $2 WHERE (SELECT count(*) FROM agents) < $3
    ON CONFLICT (name) DO NOTHING
    RETURNING true AS ours
)
SELECT ours FROM taken UNION ALL SELECT token_id IS NULL OR token_id = $2 FROM agents WHERE name = $1
