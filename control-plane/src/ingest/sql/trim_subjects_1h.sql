-- Of each bucket of a domain that is over, keeps the $3 heaviest rows. $1 <= bucket < $2.
DELETE FROM subjects_1h AS s
USING (
    SELECT domain, bucket, subject, rule, tier,
           row_number() OVER (PARTITION BY domain, bucket ORDER BY denied DESC, subject, rule, tier) AS place
    FROM subjects_1h WHERE bucket >= $1 AND bucket < $2
) AS ranked
WHERE ranked.place > $3 AND s.bucket >= $1 AND s.bucket < $2
  AND (s.domain, s.bucket, s.subject, s.rule, s.tier) = (ranked.domain, ranked.bucket, ranked.subject, ranked.rule, ranked.tier)
