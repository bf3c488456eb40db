-- Adds sums to a coarser level, which does not know shard and cause.
INSERT INTO traffic_1m AS t (domain, bucket, rule, tier, outcome, requests, units)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::smallint[], $6::bigint[], $7::bigint[])
ON CONFLICT (domain, bucket, rule, tier, outcome) DO UPDATE
SET requests = t.requests + excluded.requests, units = t.units + excluded.units
