-- Of each of these agents only the processes that sent something last: one that starts over and over leaves no more rows than these.
DELETE FROM ingest_progress AS i
USING (SELECT agent, boot, row_number() OVER (PARTITION BY agent ORDER BY highest = 0 DESC, updated_at DESC) AS place
       FROM ingest_progress WHERE agent = ANY ($1)) AS p
WHERE i.agent = p.agent AND i.boot = p.boot AND p.place > $2
