-- Locked until the batch is stored or given up: of two copies of a batch, the second waits and then finds it stored.
SELECT agent, boot, highest, seen
FROM ingest_progress JOIN unnest($1::text[], $2::text[]) AS p (agent, boot) USING (agent, boot)
ORDER BY agent COLLATE "C", boot COLLATE "C"
FOR UPDATE OF ingest_progress
