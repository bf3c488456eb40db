-- A row for each process that has none yet, in one order. A concurrent first batch of the same process waits here.
INSERT INTO ingest_progress (agent, boot, highest, seen)
SELECT agent, boot, 0, 0 FROM unnest($1::text[], $2::text[]) AS p (agent, boot) ORDER BY agent COLLATE "C", boot COLLATE "C"
ON CONFLICT (agent, boot) DO NOTHING
