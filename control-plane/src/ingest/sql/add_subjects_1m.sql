-- Adds what the heaviest subjects were denied.
INSERT INTO subjects_1m AS s (domain, bucket, subject, rule, tier, denied, allowed, error, first_second, last_second)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
                     $10::bigint[])
ON CONFLICT (domain, bucket, subject, rule, tier) DO UPDATE
SET denied = s.denied + excluded.denied, allowed = s.allowed + excluded.allowed, error = s.error + excluded.error,
    first_second = least(s.first_second, excluded.first_second), last_second = greatest(s.last_second, excluded.last_second)
