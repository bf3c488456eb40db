UPDATE ingest_progress AS i
SET highest = p.highest, seen = p.seen, batches = i.batches + p.batches, dropped = least(i.dropped::numeric + p.dropped, 9e15)::bigint,
    refused = i.refused + p.refused, updated_at = now()
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
  AS p (agent, boot, highest, seen, batches, dropped, refused)
WHERE i.agent = p.agent AND i.boot = p.boot
