-- Adds sums to the finest level. Arrays hold each key once, in the order of the primary key.
INSERT INTO traffic_10s AS t (domain, bucket, rule, tier, outcome, shard, cause, requests, units)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::smallint[], $6::text[], $7::text[], $8::bigint[], $9::bigint[])
ON CONFLICT (domain, bucket, rule, tier, outcome, shard, cause) DO UPDATE
SET requests = t.requests + excluded.requests, units = t.units + excluded.units
